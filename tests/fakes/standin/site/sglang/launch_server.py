"""`python3 -m sglang.launch_server`."""

from standin.sglang_server import main

if __name__ == "__main__":
    main("launch_server.py")
