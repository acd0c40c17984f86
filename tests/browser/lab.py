"""A JupyterLab server of the tests, driven through its application object rather than its menus."""

import json
import os
import secrets
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

import nbformat

from nbsal.cli import NOTICE_DEATH
from tests.browser import servers
from tests.browser.servers import ROOT

FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
}
QUIET = {  # no toast over the page, and a theme that does not depend on the system's
    "notification": {"fetchNews": "false", "checkForUpdates": False},
    "themes": {"theme": "JupyterLab Light"},
}
OPEN = """async (path) => {
  const app = window.jupyterapp;
  await app.restored;
  const notebook = await app.commands.execute('docmanager:open', { path, factory: 'Notebook' });
  await notebook.context.ready;
  await notebook.revealed;
  await notebook.sessionContext.ready;
  app.shell.activateById(notebook.id);
}"""
CURRENT = "window.jupyterapp.shell.currentWidget"
KERNEL = f"{CURRENT}?.sessionContext?.session?.kernel"
IDLE = f"() => {KERNEL}?.connectionStatus === 'connected' && {KERNEL}.status === 'idle'"
CODE = f"{CURRENT}.content.widgets.filter(cell => cell.model.type === 'code')"
RAN = f"() => {CODE}.every(cell => cell.model.executionCount !== null)"
ERRORS = f"""() => {CODE}.flatMap(cell => cell.model.outputs.toJSON())
  .filter(output => output.output_type === 'error').map(output => output.ename + ': ' + output.evalue)"""
# Runs code outside the cells and returns what it printed.
EXECUTE = f"""async (code) => {{
  const request = {KERNEL}.requestExecute({{ code, store_history: false }});
  let printed = '';
  request.onIOPub = (message) => {{
    if (message.header.msg_type === 'stream') printed += message.content.text;
    if (message.header.msg_type === 'error') printed += message.content.ename + ': ' + message.content.evalue;
  }};
  await request.done;
  return printed;
}}"""


class Lab:
    """A server that uses none of the user's folders."""

    module = "jupyterlab"
    app = "LabApp"

    def __init__(self, base: Path) -> None:
        self.base, self.root = base, base / "root"
        self.root.mkdir()
        self.token = secrets.token_hex(16)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        for plugin, settings in QUIET.items():
            file = base / "settings" / "@jupyterlab" / "apputils-extension" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings))

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self.url.rsplit(":", 1)[1],
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": self.root,
            "ServerApp.terminals_enabled": False,
            "IdentityProvider.token": self.token,
            f"{self.app}.expose_app_in_browser": True,
            "LabApp.news_url": None,
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "LabApp.extension_manager": "readonly",
        }
        arguments = ["--no-browser", "--allow-root", NOTICE_DEATH]
        arguments += [f"--{name}={value}" for name, value in options.items()]
        folders = {name: str(self.base / folder) for name, folder in FOLDERS.items()}
        settings = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.log = (self.base / "lab.log").open("wb")
        environment = os.environ | folders | settings
        self.server = servers.start(self.module, *arguments, env=environment, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 240
        while True:
            assert self.server.poll() is None and time.monotonic() < deadline, (self.base / "lab.log").read_text()
            try:
                self.ask("status", timeout=20)
                return
            except OSError:
                time.sleep(0.05)

    def ask(self, address: str, method: str = "GET", content: Any = None, timeout: float = 60) -> Any:
        """The server's answer to a request."""
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}/api/{address}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.loads(answer.read() or "null")

    def stop_kernels(self) -> None:
        """Stop the kernels of all notebooks."""
        for session in self.ask("sessions"):
            self.ask(f"sessions/{session['id']}", "DELETE")

    def stop(self, patience: float = servers.PATIENCE) -> None:
        """Stop the server and its kernels."""
        servers.stop(self.server, patience)
        self.log.close()

    def write(self, name: str, *cells: str) -> str:
        """Write a notebook with some code cells; return its name."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.root / name)
        return name

    def open(self, page, name: str) -> "Notebook":
        """Open a notebook in a page and wait for its kernel, which starts while the page loads."""
        kernel = {"name": "python3"}
        self.ask("sessions", "POST", {"path": name, "name": name, "type": "notebook", "kernel": kernel})
        page.goto(f"{self.url}/lab/workspaces/{secrets.token_hex(4)}?token={self.token}&reset")
        page.wait_for_function("() => window.jupyterapp?.shell")
        page.evaluate(OPEN, name)
        page.wait_for_function(IDLE)
        return Notebook(page)


class ClassicServer(Lab):
    """A server of Jupyter Notebook 7, which shows one notebook a page."""

    module = "notebook"
    app = "JupyterNotebookApp"

    def open(self, page, name: str) -> "Notebook":
        page.goto(f"{self.url}/notebooks/{name}?token={self.token}")
        page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.sessionContext")
        page.evaluate(f"async () => {{ await {CURRENT}.context.ready; await {CURRENT}.sessionContext.ready; }}")
        page.wait_for_function(IDLE)
        return Notebook(page)


class Notebook:
    """An open notebook, whose cells and kernel can be run."""

    def __init__(self, page) -> None:
        self.page = page

    def run_all(self) -> None:
        """Run every cell; an error in a cell fails the test."""
        self._command("notebook:run-all-cells")
        self.page.wait_for_function(RAN)
        self.page.wait_for_function(IDLE)
        assert self.page.evaluate(ERRORS) == []

    def run_cell(self, index: int, wait: bool = True) -> None:
        """Run one cell."""
        self.page.evaluate(
            f"(i) => {{ const notebook = {CURRENT}.content; notebook.deselectAll(); notebook.activeCellIndex = i; }}",
            index,
        )
        self._command("notebook:run-cell", wait)
        if wait:
            self.page.wait_for_function(IDLE)
            assert self.page.evaluate(ERRORS) == []

    def clear(self) -> None:
        """Clear every output, and with it every view."""
        self._command("notebook:clear-all-cell-outputs")

    def python(self, code: str) -> str:
        """Run code in the kernel, outside the cells; return what it printed."""
        return self.page.evaluate(EXECUTE, code).strip()

    def until(self, expression: str, expected: str, seconds: float = 60) -> None:
        """Poll until an expression prints as expected: the kernel handles the changes of a page one at a time."""
        deadline = time.monotonic() + seconds
        while (printed := self.python(f"print({expression})")) != expected:
            assert time.monotonic() < deadline, f"{expression} is {printed}, not {expected}"
            self.page.wait_for_timeout(30)

    def save(self) -> None:
        """Save the file."""
        self.page.evaluate(f"async () => {{ await {CURRENT}.context.save(); }}")

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.page.evaluate(f"() => {CURRENT}.content.widgets.length")

    def _command(self, name: str, wait: bool = True) -> None:
        call = f"window.jupyterapp.commands.execute('{name}')"
        self.page.evaluate(f"async () => {{ await {call}; }}" if wait else f"() => {{ {call}; }}")
