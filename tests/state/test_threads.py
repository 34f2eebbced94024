"""Operations are found by name when they are first used, in any thread."""

import subprocess
import sys

CODE = """
import sys, threading, time
import tugtool.state as state

class Slow:
    # Loads `tugtool.state.views` slowly, so that another thread finds it half loaded.
    def find_spec(self, name, path=None, target=None):
        if name == "tugtool.state.reviews":
            loading.set()
            time.sleep(0.2)  # Nothing tells when the other thread waits.
        return None

loading = threading.Event()
sys.meta_path.insert(0, Slow())
first = threading.Thread(target=lambda: state.show)
first.start()
assert loading.wait(60)
print(state.show.__name__)
first.join()
"""


def test_an_operation_that_another_thread_is_loading_is_waited_for():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("show\n", "")
