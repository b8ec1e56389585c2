"""Where each refusal and each error of execution is first told, and why not in an earlier step.

A plan promises nothing that `apply` always refuses: what the metadata show is told by `plan`, what only data files show
by `plan --sample`, and the rest by the command that finds it.
"""

import ast
import re
from pathlib import Path

from support.sources import SOURCES, nodes

STEPS = ("plan", "sample", "apply")
OTHER_COMMANDS = "no plan comes before it: "
SESSION = "the session is not known before apply starts it or is given it"
LATER = "it is caused by what other writers do after the plan"
WRITING = "it is found by writing the files or by comparing them with what was read"

# The step that tells a code first, and the reasons for which the steps before it do not. A code with several causes
# has the step of each.
FIRST_TOLD: dict[str, dict[str, str]] = {
    "ZL201": {"plan": ""},
    "ZL202": {"plan": ""},
    "ZL203": {"apply": LATER},
    "ZL204": {"apply": SESSION},
    "ZL205": {"plan": ""},
    "ZL206": {"apply": "a saved plan is read by the command that uses it"},
    "ZL207": {"apply": SESSION},
    "ZL208": {"apply": SESSION},
    "ZL209": {"apply": SESSION},
    "ZL210": {"apply": SESSION},
    "ZL211": {"plan": "", "apply": OTHER_COMMANDS + "rollback"},
    "ZL212": {"plan": ""},
    "ZL213": {"plan": ""},
    "ZL214": {"plan": ""},
    "ZL215": {"plan": ""},
    "ZL216": {"apply": SESSION + ": the layout declares engine zlayout, which cannot run in it"},
    "ZL217": {
        "plan": "",
        "apply": "the rows with these strings are in files whose bounds have another string, and a sample reads only "
        "some rows",
    },
    "ZL218": {"plan": "", "apply": SESSION + ", and so is its time zone"},
    "ZL219": {"plan": ""},
    "ZL220": {"apply": SESSION + ", and so are its log store and client of S3"},
    "ZL221": {"plan": ""},
    "ZL222": {"plan": ""},
    "ZL223": {"plan": "", "apply": SESSION + ": engine zlayout cannot run in it"},
    "ZL224": {"plan": "", "apply": SESSION + ": engine zlayout cannot run in it"},
    "ZL225": {"apply": LATER},
    "ZL226": {"plan": ""},
    "ZL227": {"plan": "", "apply": SESSION + ", and so is its Iceberg, which may not know the types"},
    "ZL228": {"apply": SESSION + ", and so are its Spark and Iceberg, the newest of which can do it"},
    "ZL229": {"plan": "", "apply": SESSION + ", and so is its Iceberg, which may rewrite main only"},
    **{
        code: {"apply": OTHER_COMMANDS + "rollback"}
        for code in ("ZL230", "ZL231", "ZL232", "ZL233", "ZL234", "ZL235", "ZL236")
    },
    "ZL237": {"plan": ""},
    "ZL238": {"plan": ""},
    "ZL239": {"plan": ""},
    "ZL240": {"plan": ""},
    "ZL241": {"plan": ""},
    "ZL242": {"plan": ""},
    "ZL243": {"plan": ""},
    "ZL244": {"plan": ""},
    "ZL245": {"plan": "", "sample": "the schema of a data file is only in the file"},
    "ZL246": {"plan": ""},
    "ZL250": {"apply": OTHER_COMMANDS + "publish"},
    "ZL251": {"apply": OTHER_COMMANDS + "publish"},
    "ZL252": {"apply": OTHER_COMMANDS + "drop-trial"},
    "ZL253": {"apply": OTHER_COMMANDS + "drop-trial"},
    "ZL254": {"apply": OTHER_COMMANDS + "trial"},
    "ZL255": {"apply": OTHER_COMMANDS + "publish"},
    "ZL256": {"apply": OTHER_COMMANDS + "publish"},
    "ZL260": {"plan": ""},
    "ZL261": {"apply": SESSION},
    "ZL262": {"apply": SESSION},
    "ZL263": {"apply": SESSION},
    "ZL301": {"apply": "a plan needs no Java; apply checks it before the question whether to apply"},
    "ZL302": {"apply": "a plan needs no Java; apply checks it before the question whether to apply"},
    "ZL303": {"apply": "a plan needs no pyspark; apply checks it before the question whether to apply"},
    "ZL304": {"apply": SESSION},
    "ZL305": {"apply": "the JVM ends while it works"},
    "ZL306": {"apply": SESSION},
    "ZL307": {"apply": "it is the code of what nothing foresaw"},
    "ZL308": {"apply": OTHER_COMMANDS + "trial"},
    "ZL309": {"apply": OTHER_COMMANDS + "trial"},
    "ZL310": {"apply": WRITING},
    "ZL311": {"apply": WRITING + ": of a file that a sample reads, `plan --sample` warns by ZL448"},
    "ZL312": {"apply": WRITING},
    "ZL313": {"apply": "a plan has each file once; it is the last check of that"},
    "ZL314": {"apply": "Spark, storage and the code of the formats fail while they work"},
    "ZL315": {"apply": WRITING},
    "ZL316": {"apply": LATER},
    "ZL318": {"apply": WRITING},
    "ZL319": {"apply": LATER},
    "ZL320": {"apply": LATER},
    "ZL321": {"apply": LATER},
    "ZL322": {"apply": LATER},
    "ZL323": {"apply": LATER},
    "ZL331": {"apply": "a commit was sent, and no answer came"},
    "ZL340": {"apply": "the commands of the formats select the files themselves"},
    "ZL341": {"apply": "the jars are downloaded when Spark starts"},
    "ZL342": {"apply": SESSION},
    "ZL343": {"apply": SESSION},
}
# What only runs in a session or after it has started. A code of a plan is in another module, too.
_EXECUTION = re.compile(
    r"zlayout/(formats/\w+/write|formats/kernel|spark|rewrite)/|zlayout/(app|session)/(apply|trial|rollback)\.py"
)
ERRORS = Path(__file__).parents[2] / "docs/errors.md"


def test_the_table_has_every_code_of_a_refusal_and_of_execution() -> None:
    assert list(FIRST_TOLD) == re.findall(r"^\| (ZL[23]\d\d) ", ERRORS.read_text(), re.MULTILINE)


def test_a_code_that_a_plan_does_not_tell_has_a_reason() -> None:
    for code, told in FIRST_TOLD.items():
        assert told, code
        assert all(step in STEPS for step in told), code
        assert list(told) == sorted(told, key=STEPS.index), code
        assert all(bool(why) != (step == "plan") for step, why in told.items()), code


def test_the_code_of_a_plan_is_not_only_in_modules_of_execution() -> None:
    planned = {
        node.value
        for path in SOURCES
        if not _EXECUTION.search(path.as_posix())
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in FIRST_TOLD
    }
    assert {code for code, told in FIRST_TOLD.items() if "plan" in told} - planned == set()
