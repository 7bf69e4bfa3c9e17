"""What a head reads from its target that some engine versions do not give it."""

from appliance.engines.base import Pair

LAST_BOUNDARY = 36  # gpt-oss-120b has 36 layers: the hidden states after the last one


def reads_last_boundary(pair: Pair) -> bool:
    """Whether the draft reads the states after the target's last layer, as its checkpoint numbers them."""
    head = pair.draft.head if pair.draft else None
    return head is not None and LAST_BOUNDARY in head.layers.get("vllm", ())
