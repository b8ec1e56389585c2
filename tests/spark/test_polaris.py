"""Rewrites that yield to writers in Apache Polaris.

The class with which the server of Polaris 1.4 commits undoes a rewrite here, in a table of a catalog that writes the
metadata itself, as that server does. The server is not started.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from contract import Contract, make_rows
from spark.arenas import IcebergArena
from spark.catalogs import RestArena
from support.ivy import jars_of

from zlayout.formats.iceberg.backend import YIELDS, IcebergBackend
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.planner import selection as accepted
from zlayout.spark.session import SparkRuntime
from zlayout.table.state import PartitionField

JAVA_17 = 61  # the version of class files
REGION = (PartitionField("region"),)


@pytest.fixture(scope="module")
def polaris(runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A `CatalogHandlerUtils` of Polaris (py4j) that undoes rewrites."""
    jvm, gateway = runtime.session._jvm, runtime.session.sparkContext._gateway
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(for_java_17(jars_of("polaris"), tmp_path_factory.mktemp("polaris")))).toURI().toURL()
    loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    loaded = loader.loadClass("org.apache.polaris.service.catalog.iceberg.CatalogHandlerUtils")
    types = gateway.new_array(jvm.java.lang.Class, 2)
    types[0], types[1] = jvm.java.lang.Integer.TYPE, jvm.java.lang.Boolean.TYPE
    values = gateway.new_array(jvm.java.lang.Object, 2)
    values[0], values[1] = 5, True
    yield loaded.getConstructor(types).newInstance(values)
    loader.close()


def for_java_17(jars: list[str], folder: Path) -> Path:
    """Extract classes, and state in each that it is for Java 17: they are for 21, and use nothing of it here."""
    for jar in jars:
        with ZipFile(jar) as file:
            for name in file.namelist():
                if name.endswith(".class"):
                    content = file.read(name)
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content[:6] + JAVA_17.to_bytes(2, "big") + content[8:])
    return folder


def request_without(jvm: IcebergJvm, arena: IcebergArena, path: str) -> Any:
    """The request of a writer that removes a file from the present snapshot, to be sent later."""
    table = jvm.load(arena.table)
    files = table.currentSnapshot().addedDataFiles(table.io()).iterator()
    while (file := files.next()).location() != path:
        pass
    snapshot = table.newDelete().deleteFile(file).apply()
    base = table.operations().current()
    updates = jvm.iceberg.TableMetadata.buildFrom(base).setBranchSnapshot(snapshot, "main").build().changes()
    requirements = jvm.iceberg.UpdateRequirements.forUpdateTable(base, updates)
    name = jvm.iceberg.catalog.TableIdentifier.parse(".".join(arena.table.identifier))
    return jvm.iceberg.rest.requests.UpdateTableRequest.create(name, requirements, updates)


def yields(arena: IcebergArena) -> None:
    """Let the rewrites of the arena yield to writers."""
    catalog = arena.project.catalogs[arena.catalog]
    options = {**catalog.options, "yield_to_writers": True}
    arena.backend = IcebergBackend(replace(catalog, options=options), arena.runtime)


def summary(jvm: IcebergJvm, arena: IcebergArena) -> dict[str, str]:
    return dict(jvm.load(arena.table).currentSnapshot().summary())


@pytest.mark.parametrize("arena", [RestArena], indirect=True)
def test_a_rewrite_has_the_property_only_if_the_catalog_declares_it(arena: IcebergArena) -> None:
    contract, jvm = Contract(), IcebergJvm(arena.runtime.session)
    arena.create(make_rows(contract.rows), contract.files)
    contract.apply(arena, contract.plan(arena, contract.spec(arena, ("a",))))
    assert not summary(jvm, arena).keys() & YIELDS
    yields(arena)
    contract.apply(arena, contract.plan(arena, contract.spec(arena, ("b",))))
    assert summary(jvm, arena).items() >= YIELDS.items()
    native = contract.spec(arena, ("a",))
    native = replace(native, layout=replace(native.layout, engine="native", curve="linear"))
    contract.apply(arena, contract.plan(arena, native))
    assert summary(jvm, arena).items() >= YIELDS.items()


@pytest.mark.parametrize("arena", [IcebergArena], indirect=True)
def test_a_rewrite_that_polaris_undoes_is_planned_again(arena: IcebergArena, polaris: Any) -> None:
    """The writer commits what was based on the snapshot before the rewrite, and no row is lost or returns."""
    contract, jvm = Contract(), IcebergJvm(arena.runtime.session)
    yields(arena)
    arena.create(make_rows(contract.rows), contract.files)
    spec = contract.spec(arena, ("a",), partition_by=REGION)
    contract.apply(arena, contract.plan(arena, spec))
    arena.append(make_rows(contract.rows, start=contract.rows), 4)
    waiting = contract.plan(arena, spec).plan
    before = arena.backend.observe(arena.table, ())
    assert before.properties[accepted.PROPERTY] == accepted.acceptance(spec)
    paths = before.files.path.to_pylist()
    removed = next(path for path, layout in zip(paths, before.files.layout, strict=True) if layout < 0)
    request = request_without(jvm, arena, removed)
    kept = sorted(row.id for row in arena.read().where(f"_file != '{removed}'").select("id").collect())

    contract.apply(arena, contract.plan(arena, spec))
    undone = arena.backend.observe(arena.table, ())
    assert contract.plan(arena, spec).plan.status == "unchanged"
    polaris.commit(jvm.load(arena.table).operations(), request)

    arena.sql(f"REFRESH TABLE {arena}")
    after = arena.backend.observe(arena.table, ())
    assert undone.version not in {int(s.snapshotId()) for s in jvm.load(arena.table).snapshots()}
    assert set(after.files.path.to_pylist()) == set(before.files.path.to_pylist()) - {removed}
    assert accepted.PROPERTY in jvm.load(arena.table).properties()
    assert after.properties[accepted.PROPERTY] == ""
    planned = contract.plan(arena, spec)
    assert planned.plan.status == waiting.status == "changes"
    assert planned.plan.decay
    contract.apply(arena, planned)
    assert contract.plan(arena, spec).plan.status == "unchanged"
    assert sorted(arena.rows()["id"].to_pylist()) == kept
