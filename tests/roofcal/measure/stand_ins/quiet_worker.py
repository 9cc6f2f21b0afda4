"""A worker that is ready, takes a group, and dies before it has named a point."""

import os
import sys

if __name__ == "__main__":
    sys.stdin.readline()
    with os.fdopen(int(sys.argv[2]), "w") as events:
        events.write('{"ready": true}\n')
    sys.stdin.readline()
    os._exit(6)
