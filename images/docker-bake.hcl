# Every image of ours. `spark-spec images build` lays out the folder this is run in, with one `context` that holds the
# image's Dockerfile, and sets what only it knows: base, platform, tag, version and the host's certificates.
#
#   docker buildx bake --file images/docker-bake.hcl --print      shows what is built

group "default" {
  targets = ["serve-llamacpp", "serve-trtllm", "serve-vllm", "serve-sglang", "dump", "train", "train-cpu", "gateway"]
}

target "ours" {
  context = "context"
  output  = ["type=docker"]
  attest  = ["type=provenance,disabled=true"] # it would hold the time, and the folder's name
  labels  = { "org.opencontainers.image.vendor" = "spark-spec" }
}

target "serve-llamacpp" {
  inherits = ["ours"]
  labels = {
    "spark-spec.image"                     = "serve-llamacpp"
    "org.opencontainers.image.title"       = "spark-spec serve-llamacpp"
    "org.opencontainers.image.description" = "llama.cpp under the supervisor of spark-spec"
    "org.opencontainers.image.licenses"    = "Apache-2.0 AND MIT"
  }
}

target "serve-trtllm" {
  inherits = ["ours"]
  labels = {
    "spark-spec.image"                     = "serve-trtllm"
    "org.opencontainers.image.title"       = "spark-spec serve-trtllm"
    "org.opencontainers.image.description" = "TensorRT-LLM under the supervisor of spark-spec"
  }
}

target "serve-vllm" {
  inherits = ["ours"]
  labels = {
    "spark-spec.image"                     = "serve-vllm"
    "org.opencontainers.image.title"       = "spark-spec serve-vllm"
    "org.opencontainers.image.description" = "vLLM under the supervisor of spark-spec"
  }
}

target "serve-sglang" {
  inherits = ["ours"]
  labels = {
    "spark-spec.image"                     = "serve-sglang"
    "org.opencontainers.image.title"       = "spark-spec serve-sglang"
    "org.opencontainers.image.description" = "SGLang under the supervisor of spark-spec"
  }
}

target "dump" {
  inherits = ["ours"]
  labels = {
    "spark-spec.image"                     = "dump"
    "org.opencontainers.image.title"       = "spark-spec dump"
    "org.opencontainers.image.description" = "hidden states of a target, dumped by TensorRT-LLM"
  }
}

target "train" {
  inherits = ["ours"]
  labels = {
    "spark-spec.image"                     = "train"
    "org.opencontainers.image.title"       = "spark-spec train"
    "org.opencontainers.image.description" = "training of draft heads with Model-Optimizer, on a GPU"
  }
}

target "train-cpu" {
  inherits = ["ours"]
  labels = {
    "spark-spec.image"                     = "train-cpu"
    "org.opencontainers.image.title"       = "spark-spec train-cpu"
    "org.opencontainers.image.description" = "training of draft heads with Model-Optimizer, on a CPU"
    "org.opencontainers.image.licenses"    = "Apache-2.0 AND BSD-3-Clause"
  }
}

target "gateway" {
  inherits = ["ours"]
  labels = {
    "spark-spec.image"                     = "gateway"
    "org.opencontainers.image.title"       = "spark-spec gateway"
    "org.opencontainers.image.description" = "nginx with njs in front of an engine"
    "org.opencontainers.image.licenses"    = "Apache-2.0 AND BSD-2-Clause"
  }
}
