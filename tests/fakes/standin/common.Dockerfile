# What all stand-ins have: Python, llama.cpp with its two models, the judge. Nothing of the appliance's own program.
ARG BASE
ARG LLAMA
FROM ${LLAMA} AS llama
FROM ${BASE}
COPY --from=llama /usr/lib/*-linux-gnu/libgomp.so.1.0.0 /usr/local/lib/libgomp.so.1
COPY --from=llama /opt/spark-spec/site/xllamacpp/ /usr/local/lib/python3.11/dist-packages/xllamacpp/
COPY models/ /opt/standin/models/
COPY site/ /usr/local/lib/python3.11/dist-packages/
RUN ldconfig && python3 -c 'import click, jsonschema, xllamacpp, yaml'
ENV STANDIN_MODELS=/opt/standin/models HOME=/root
# Of the appliance's own base only the files are taken, not what it says of itself.
LABEL spark-spec.image=""
# hadolint ignore=DL3002
USER 0:0
WORKDIR /app
