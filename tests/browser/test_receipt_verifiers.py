"""Three verifiers, written apart from each other, say the same of every receipt, and none says that a changed one holds."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import pytest_asyncio

import callgate_verify
from callgate.audit import note, receipt
from callgate.audit.cosigning import Witnesses
from callgate.cli.audit import approval_in
from callgate.errors import CallgateError
from support.browser import PATIENCE_MS
from support.receipts import cases

pytestmark = pytest.mark.asyncio(loop_scope="session")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return cases(tmp_path_factory.mktemp("receipts"))


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser):
    """The page as a file, on a machine without a network."""
    context = await browser.new_context(offline=True, viewport={"width": 900, "height": 1200})
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    troubles, asked = [], []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    await page.goto((ROOT / "docs/reference/verify.html").as_uri())
    yield page
    await context.close()
    assert troubles == []
    assert all(url.startswith("file:") for url in asked)


def by_callgate(case):
    """Whether it holds, and codes for what it says."""
    given = case.options
    try:
        key = note.VerifierKey.parse(given["key"]) if "key" in given else None
        keys = tuple(note.VerifierKey.parse(text, note.WITNESS) for text in given.get("witnesses", ()))
        different = len({one.public for one in keys})
        if given.get("quorum", 0) > different:
            return False, set()
        done = receipt.verify(case.document, key, Witnesses(keys, given.get("quorum", different)))
        approval = approval_in(done.decision, given["arguments"].encode() if "arguments" in given else None)
    except CallgateError:
        return False, set()
    codes = {"decision", "log" if done.key_given else "-log", "outcome" if done.outcome else "-outcome"}
    codes.add("witnesses" if done.cosigned else "-witnesses")
    if approval is not None and not approval.proven:
        codes.add("-approval")
    elif approval is not None:
        codes |= {"approval", "arguments" if all(one.whole for one in approval.proven) else "-arguments"}
    return True, codes


def codes_of(said):
    verified = {code for code, _ in said["verified"]}
    return verified | {f"-{code}" for code, _ in said["not_verified"] if code not in ("person", "fresh", "cosignature")}


def by_package(case):
    given = case.options
    args = given["arguments"].encode() if "arguments" in given else None
    return callgate_verify.verify(
        case.document, given.get("key"), given.get("witnesses", ()), given.get("quorum"), args
    )._asdict()


async def in_browser(page, case):
    given = case.options
    options = {"key": given.get("key", ""), "witnesses": given.get("witnesses", []), "quorum": given.get("quorum")}
    return await page.evaluate(
        "([text, options]) => verifyReceipt(text, options)",
        [case.document.decode(), {**options, "args": given.get("arguments")}],
    )


async def test_all_say_the_same_of_every_receipt(table, page):
    assert sum(case.holds for case in table) >= 9
    assert sum(not case.holds for case in table) > 200
    wrong = []
    for case in table:
        package, shown = by_package(case), await in_browser(page, case)
        holds, codes = by_callgate(case)
        verdicts = (holds, package["holds"], shown["holds"])
        if verdicts != (case.holds,) * 3:
            wrong.append((case.name, verdicts, package["problem"], shown["problem"]))
        elif case.holds:
            same = [package[name] == [*map(tuple, shown[name])] for name in ("verified", "not_verified")]
            if package["summary"] != shown["summary"] or not all(same) or codes != codes_of(package):
                wrong.append((case.name, codes ^ codes_of(package), package, shown))
        elif package["problem"] != shown["problem"] and "JSON" not in package["problem"]:
            wrong.append((case.name, package["problem"], shown["problem"]))
    assert wrong == []


async def test_an_auditor_opens_it_with_a_receipt_and_then_with_a_changed_one(table, page, tmp_path):
    good = table[0]
    file = tmp_path / "receipt.json"
    file.write_bytes(good.document)
    await page.fill("#key", good.options["key"])
    await page.fill("#witnesses", "\n".join(good.options["witnesses"]))
    await page.set_input_files("#file", file)
    await page.wait_for_selector("#result.holds")
    said = await page.inner_text("#result")
    assert "The receipt holds." in said
    for words in (
        "Approved by: ann",
        "Rule: ask-first",
        "w.example/two has cosigned",
        "this tool with these arguments",
    ):
        assert words in said
    await page.fill("#receipt", (await page.input_value("#receipt")).replace("shopping", "chopping"))
    assert await page.is_hidden("#result"), "what was said is of another text"
    await page.click("#verify")
    await page.wait_for_selector("#result.refused")
    said = await page.inner_text("#result")
    assert "The receipt does not hold." in said
    assert "two stories" in said
    assert "Approved by" not in said


async def test_markup_in_a_record_stays_text(table, page):
    """Nothing that a log wrote acts in the page; a refused one does not show anything of it either."""
    text = table[0].document.decode().replace("delete_note", "<img src=x onerror=alert(1)>")
    await page.fill("#receipt", text)
    await page.click("#verify")
    await page.wait_for_selector("#result.refused")
    assert await page.locator("#result img").count() == 0


async def test_the_package_alone_in_an_environment_without_callgate(table, tmp_path):
    """Built as a wheel, and run with `cryptography` and nothing else."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT / "verify", check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("callgate_verify-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = next((tmp_path / "venv").glob("[Bbs][ic]*/python*"))
    (site,) = [*(tmp_path / "venv").glob("lib/*/site-packages"), *(tmp_path / "venv").glob("Lib/site-packages")]
    zipfile.ZipFile(wheel).extractall(site)
    installed = Path(sysconfig.get_path("platlib"))
    for one in installed.iterdir():
        if one.name.startswith(("cryptography", "cffi", "_cffi_backend", "pycparser")):
            (site / one.name).symlink_to(one)

    def run(case):
        (tmp_path / "receipt.json").write_bytes(case.document)
        words = [
            str(python),
            "-I",
            "-m",
            "callgate_verify",
            str(tmp_path / "receipt.json"),
            "--key",
            case.options["key"],
        ]
        words += [word for key in case.options["witnesses"] for word in ("--witness", key)]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    missing = subprocess.run([str(python), "-I", "-c", "import callgate"], capture_output=True, check=False)
    assert missing.returncode == 1
    good = run(table[0])
    assert (good.returncode, good.stdout.splitlines()[0]) == (0, "The receipt holds.")
    changed = next(case for case in table if case.name.startswith("another text at decision.record.tool"))
    bad = run(changed)
    assert bad.returncode == 1
    assert bad.stdout.startswith("The receipt does not hold: ")
    assert json.loads(table[0].document)["summary"][1] in good.stdout
