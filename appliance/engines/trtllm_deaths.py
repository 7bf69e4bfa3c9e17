"""How TensorRT-LLM dies, by its last lines, and what to tell the person."""

from appliance.engines.base import Death

DEATHS: tuple[Death, ...] = (
    Death(
        r"stopped to save the machine",
        "the machine's memory was running out, and with unified memory it would have stood still",
        "lower serve.max_seq_len, serve.max_batch_size or what caps the KV cache, end other programs, or lower "
        "health.memory_floor_gib",
    ),
    Death(
        r"Failed to bind socket|[Aa]ddress already in use",
        "the port is taken by another program",
        "choose another port with --set serve.port=…, or end the other program",
    ),
    Death(
        r"Extra inputs are not permitted|extra_forbidden",
        "this version of the engine does not know a key of its config",
        "take the key it names out of the trtllm section, or set engine.version to the image's own version",
    ),
    Death(
        r"Invalid decoding type|union_tag_invalid|does not match any of the expected tags",
        "the engine is of another version than engine.version says: it names draft-target otherwise",
        "set engine.version to the image's own version",
    ),
    Death(
        r"No such option",
        "this version of the engine does not know an option of ours",
        "set engine.version to the image's own version",
    ),
    Death(
        r"ValidationError: \d+ validation errors? for \w*(Args|Config)",
        "the engine refuses a value in its config",
        "the lines above name it: correct it in the trtllm section",
    ),
    Death(
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|couldn't connect to the Hub|has no snapshot|has no refs/main",
        "the model is not whole in the mounted cache, and the container has no way to a hub",
        "`spark-spec models list` says what is missing",
    ),
    Death(
        r"harmony.*vocab|vocab file|is not there: a vocabulary|is not a vocabulary",
        "the harmony vocabulary is not where the engine looks for it",
        "see paths.harmony; `spark-spec up` names the command that gets it",
    ),
    Death(
        r"(?<!\d)(5760\D(.*\D)?8640|8640\D(.*\D)?5760)(?!\d)|shapes cannot be multiplied|size mismatch for",
        "the head reads other layers of the target than it was trained on",
        "leave eagle3_layers_to_capture out, and see that the head is made for this target: spark-spec heads",
    ),
    Death(
        r"Assert.*max_position_embeddings|max_position_embeddings.*(exceed|smaller|less)|position embedding.*exceed"
        r"|exceed.*max_position_embeddings",
        "a prompt is longer than the draft was made for",
        "lower serve.max_seq_len to what the draft can do",
    ),
    Death(
        r"[Ii]llegal instruction|\bSIGILL\b",
        "this build of the engine has an instruction that a GB10 lacks (#11313)",
        "leave engine.version out",
    ),
    Death(
        r"no kernel image is available|exec format error|unsupported .*sm_?12[01]",
        "the image is not built for this processor or GPU",
        "see that the image is for linux/arm64 and knows GB10 (sm_121)",
    ),
    Death(
        r"cudaMemGetInfo|[Oo]ut of [Mm]emory|OutOfMemoryError|bad_alloc|SIGKILL|signal 9\b|Cannot allocate memory",
        "there is not enough memory; on unified memory the page cache takes its share",
        "lower serve.max_seq_len, serve.max_batch_size or trtllm.kv_cache_config.max_tokens, end other programs, or "
        "give the page cache back: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
    ),
    Death(
        r"Segfault encountered|Segmentation fault|\bSIGSEGV\b",
        "the engine crashed in its own code; on a GB10 this was seen as it captured CUDA graphs",
        "--set trtllm.cuda_graph_config=null goes without them, more slowly; or choose another engine.version",
    ),
    Death(
        r"Permission denied|Read-only file system",
        "the engine may not write or read where it wants to",
        "see what the lines name; where it needs root inside its container: --set docker.user=0:0",
    ),
    Death(
        r"CUDA driver version is insufficient|no CUDA-capable device|[Nn]o GPU (is )?found|libcuda\.so",
        "the engine sees no GPU in its container",
        "see that `nvidia-smi` works on the host, and which way it gets in: docker.gpu=cdi, runtime or devices",
    ),
)
