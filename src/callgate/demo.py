"""`python -m callgate.demo [NAME] FOLDER`: an example server on stdio. Its program is in `examples/demo`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("callgate_demo", run_name="__main__", alter_sys=True)
