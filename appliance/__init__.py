"""spark-spec: fast local LLM serving by speculative decoding."""

__version__ = "0.1.0"
