"""`python3 -m appliance.trainer`: what the images dump, train and train-cpu run."""

import argparse
import json
from collections.abc import Sequence

from appliance.trainer.environment import environment


def main(argv: Sequence[str] | None = None) -> None:
    """Print what the image offers, as JSON."""
    parser = argparse.ArgumentParser(prog="appliance.trainer", description=__doc__)
    jobs = parser.add_subparsers(dest="job", required=True)
    jobs.add_parser("environment", help="print the versions in this image and its GPUs, as JSON")
    parser.parse_args(argv)
    print(json.dumps(environment(), indent=2))


if __name__ == "__main__":
    main()
