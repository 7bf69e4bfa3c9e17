"""Stand-ins for TensorRT-LLM, vLLM and SGLang, which cannot run here.

Each takes the real command line and config, judges them by the raw facts about the engine, loads, serves real
tokens from llama.cpp through the engine's own endpoints, and fails as the engine fails. Nothing here imports
the appliance. `python -m standin.trtllm`, `standin.vllm`, `standin.sglang_server`, with this folder's parent on
PYTHONPATH; in the images the engines' own commands do that. The environment:

    STANDIN_VERSION     which trtllm it is (baked into its image)
    STANDIN_MODELS      the folder with the two GGUF files that give the tokens
    STANDIN_FACTS       the folder with the facts, where it is not beside the program

`standin.json` in the target's folder sets how it starts (life.py); `POST /standin {"mood": …}` changes its mood
while it runs (mood.py).
"""
