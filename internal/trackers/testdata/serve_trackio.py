"""Serves trackio on a port until the input ends."""
import sys

import trackio

trackio.show(block_thread=False, open_browser=False, server_port=int(sys.argv[1]))
sys.stdin.read()
