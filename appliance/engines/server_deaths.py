"""How vLLM and SGLang die alike, by their last lines. NV_ERR_NO_MEMORY is no sign: healthy starts print it too."""

from appliance.engines.base import Death

DEATHS: tuple[Death, ...] = (
    Death(
        r"stopped to save the machine",
        "the machine's memory was running out, and with unified memory it would have stood still",
        "lower serve.max_seq_len, serve.max_batch_size or what caps the KV cache, end other programs, or lower "
        "health.memory_floor_gib",
    ),
    Death(
        r"[Aa]ddress already in use",
        "the port is taken by another program",
        "choose another port with --set serve.port=…, or end the other program",
    ),
    Death(
        r"error: unrecognized arguments|error: argument --|error: ambiguous option",
        "this version of the engine does not know an option, or does not take its value",
        "the line names it: take it out of the engine's section, or set engine.version to the image's own version",
    ),
    Death(
        r"harmony.*vocab|vocab file|is not there: a vocabulary|is not a vocabulary",
        "the harmony vocabulary is not where the engine looks for it",
        "see paths.harmony; `spark-spec up` names the command that gets it",
    ),
    Death(
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|couldn't connect to|HFValidationError|outgoing traffic has been"
        r" disabled|does not appear to have a file named|No such file or directory.*\.safetensors"
        r"|has no snapshot|has no refs/main",
        "a model is not here, or not whole, and the container has no way to a hub",
        "`spark-spec models list` says what is missing; the next `spark-spec up` gets it",
    ),
    Death(
        r"5760 and 8640|8640 and 5760|size mismatch .*(5760|8640)",
        "the head reads three layers of the target, and this version of the engine gives it two: it drops the last one",
        "choose another head (`spark-spec heads`) or a newer engine.version, or --no-spec",
    ),
    Death(
        r"no kernel image is available|exec format error|Exec format error|unsupported .*sm_?12[01]",
        "the image is not built for this processor or GPU",
        "see that the image is for linux/arm64 and knows GB10 (sm_121)",
    ),
    Death(
        r"CUDA driver version is insufficient|no CUDA-capable device|No CUDA GPUs are available|libcuda\.so"
        r"|Failed to infer device type",
        "the engine sees no GPU in its container",
        "see that `nvidia-smi` works on the host, and which way it gets in: docker.gpu=cdi, runtime or devices",
    ),
    Death(
        r"cudaMemGetInfo",
        "the driver says there is no memory before anything is loaded: the page cache holds it, and a smaller share "
        "does not help",
        "give the page cache back: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches; where that does not last, update "
        "DGX OS",
    ),
    Death(
        r"uid not found|Permission denied|Read-only file system",
        "the engine's user may not read or write what it wants to",
        "see what the lines name; where it needs root inside its container: --set docker.user=0:0",
    ),
    Death(
        r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|bad_alloc|Cannot allocate memory|\bSIGKILL\b",
        "there is not enough memory; on unified memory other programs and the page cache take their share",
        "lower serve.max_seq_len or serve.max_batch_size or the KV cache's cap, end other programs, or give the page "
        "cache back: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
    ),
)
