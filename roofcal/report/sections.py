"""The chapter of one device: its sections, each with its tables and figures, or why it has none."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import pandas as pd

from roofcal.ops import BY_NAME
from roofcal.report import (
    breakeven_section,
    claims_section,
    columns,
    learning_section,
    llm_section,
    mixed_section,
    moved_section,
    transfer_section,
)
from roofcal.report.accuracy import judged
from roofcal.report.analysis import Analysis, with_shape
from roofcal.report.audit import reasons, roofs_beaten
from roofcal.report.breakeven_section import smallest_m
from roofcal.report.captions import caption
from roofcal.report.constants import probe_errors_table
from roofcal.report.constants_view import FULL, HEADLINE, readable
from roofcal.report.figures import accuracy, bandwidth, mixed, panel, roofline, session, speedup
from roofcal.report.figures.breakeven import draw_breakeven
from roofcal.report.figures.crossover import draw_crossover
from roofcal.report.figures.learning import draw_learning
from roofcal.report.figures.llm import draw_llm
from roofcal.report.figures.picture import Picture
from roofcal.report.learning_section import by_probes
from roofcal.report.matrices import error_table, gain_table
from roofcal.report.mixed_answer import answer
from roofcal.report.page import (
    Block,
    Chapter,
    Column,
    Commands,
    FigureBlock,
    Prose,
    Section,
    Table,
    make_table,
)
from roofcal.report.provenance import (
    commands,
    environment_facts,
    learning_command,
    llm_command,
    map_command,
    sessions_table,
    table_command,
)
from roofcal.report.summary import checks, sentences
from roofcal.report.svg import inline_svg
from roofcal.report.tables import axes_of
from roofcal.report.transfer_section import with_labels

_WORST: Final = 20


class Writer:
    """Turns the tables of a run into sections; knows how the chapter names things."""

    def __init__(self, analysis: Analysis, anchor: str, number: int) -> None:
        """`number` tells the figures of one chapter from those of another."""
        self.a, self.anchor = analysis, anchor
        self._prefix = f"f{number}x"
        self._figures = count(1)

    def chapter(self) -> Chapter:
        """The whole chapter."""
        environment = self.a.run.environment
        return Chapter(
            id=self.anchor,
            name=environment.device_name,
            short=environment.device,
            origin=self.a.run.origin,
            facts=environment_facts(environment),
            summary=sentences(self.a),
            tables=list(self._matrices()),
            checks=checks(self.a),
            sections=[section for section in self._sections() if section.blocks],
        )

    def _sections(self) -> Iterator[Section]:
        titles = {
            "constants": ("Calibrated constants", self._constants),
            "roofline": ("Roofline", self._roofline),
            "accuracy": ("Measured against predicted", self._accuracy),
            "learning": ("Learning curve", self._learning),
            "transfer": ("Calibrations of other environments", self._transfer),
            "moved": ("What moved", self._moved),
            "speedup": ("Speed-up against the baseline", self._speedup),
            "mixed": ("Mixed precision: int4 weights", self._mixed),
            "breakeven": ("Break-even of linears in fp8", self._breakeven),
            "bandwidth": ("Bandwidth", self._bandwidth),
            "llm": ("Language models", self._llm),
            "claims": (claims_section.TITLE, lambda: claims_section.blocks(self.a, self.anchor)),
            "audit": ("Violation audit", self._audit),
            "methods": ("Method panel", self._methods),
            "missing": ("Points without a time", self._missing),
            "quality": ("Quality of the measurement", self._quality),
            "points": ("All points", self._points),
            "provenance": ("Provenance", self._provenance),
        }
        for key, (title, blocks) in titles.items():
            yield Section(id=f"{self.anchor}-{key}", title=title, blocks=list(blocks()))

    def _constants(self) -> Iterator[Block]:
        a = self.a
        if a.run.calibration is None:
            yield _absent("This run is not calibrated: it has no calibration.jsonl.")
            return
        yield Prose(
            text=f"Fitted on {a.run.calibration.probe_points:,} probe points alone; intervals are "
            "95 % bootstrap intervals. No constant is taken from a datasheet."
        )
        shown = readable(a.constants[a.constants["headline"]])
        yield self._table("headline", "What the device does", shown, HEADLINE, "constants.csv")
        rest = readable(a.constants[~a.constants["headline"].astype(bool)])
        if len(rest):
            name = "Constants of the models of products and casts"
            yield self._table("constants-all", name, rest, FULL, "constants.csv")
        errors = probe_errors_table(a.run.calibration)
        if len(errors):
            name = "Error on probes that were left out of the fit"
            yield self._table("probe-errors", name, errors, columns.PROBE_ERRORS)

    def _roofline(self) -> Iterator[Block]:
        a = self.a
        for op in self._studies():
            yield from self._drawn([roofline.draw(a.frames[op], a.run.calibration, a.spec)])

    def _accuracy(self) -> Iterator[Block]:
        if self.a.errors.empty:
            yield _absent("Nothing was predicted in this run.")
            return
        for op in self._studies():
            frame = self.a.frames[op]
            errors = self._errors(op)
            pictures = [
                accuracy.draw_measured_against_predicted(frame, self.a.labels),
                accuracy.draw_error_by_regime(frame, self.a.labels),
            ]
            yield from self._drawn(pictures)
            if len(errors):
                yield error_table(errors, op, id=f"{self.anchor}-regimes-{op}")
                name = f"Error of {op} by model, regime, recipe and provider"
                source = "error_by_regime.csv"
                yield self._table(f"errors-{op}", name, errors, columns.ERRORS, source)
            yield from self._worst(op)

    def _learning(self) -> Iterator[Block]:
        table, source = self.a.learning, learning_section.SOURCE
        if table.empty:
            return
        yield from self._drawn([draw_learning(table)], source, learning_command(self.a.run))
        name = "Error on probes left out, by number of probes fitted on; middle repetition"
        yield self._table("learning", name, by_probes(table), learning_section.COLUMNS, source)

    def _errors(self, op: str) -> pd.DataFrame:
        """Errors of one op under the names that people read."""
        some = self.a.errors[self.a.errors["op"] == op]
        return with_labels(some, self.a.labels)

    def _transfer(self) -> Iterator[Block]:
        """Nothing where the device has one environment."""
        table = self.a.transfers
        if table.empty:
            return
        yield Prose(
            text="How well constants of another driver or torch predict what was measured here: "
            "the calibrated model with the calibration of every other environment of this "
            "device, beside its own, over the points that both predict."
        )
        shown, wanted = (
            transfer_section.shown(table, self.a.environment_id),
            transfer_section.COLUMNS,
        )
        name = "Own calibration against those of other environments"
        yield self._table("transfers", name, shown, wanted, transfer_section.SOURCE)

    def _matrices(self) -> Iterator[Table]:
        """The small tables of the summary, for ops with a baseline."""
        for op, table in self.a.speedups.items():
            if len(table):
                yield gain_table(table, id=f"{self.anchor}-gain-{op}")
        for op in dict.fromkeys(self.a.errors["op"]) if len(self.a.errors) else ():
            if BY_NAME[op].baseline_recipe:
                yield error_table(self._errors(op), op, id=f"{self.anchor}-error-{op}")

    def _worst(self, op: str) -> Iterator[Block]:
        rows = judged(self.a.frames[op])
        rows = rows[rows["relative_error"].notna()]
        order = rows["relative_error"].abs().sort_values(ascending=False, kind="stable").index
        if len(rows):
            worst = with_shape(rows.loc[order[:_WORST]])
            name = f"The {len(worst)} points of {op} furthest from their prediction"
            yield self._table(f"worst-{op}", name, worst, columns.WORST, self._csv(op))

    def _speedup(self) -> Iterator[Block]:
        for op, table in self.a.speedups.items():
            baseline = str(BY_NAME[op].baseline_recipe)
            yield from self._drawn(list(speedup.draw_speedups(table, baseline)))
            if len(table):
                name = f"Speed-up of {op} against {baseline}"
                yield self._table(f"speedups-{op}", name, table, columns.SPEEDUPS, "speedups.csv")
            else:
                yield _absent(f"No shape of {op} has a time in both {baseline} and another recipe.")

    def _mixed(self) -> Iterator[Block]:
        """Nothing where no product with narrow weights was planned."""
        a, calibration = self.a, self.a.run.calibration
        frame = a.frames.get(mixed_section.OP)
        if frame is None or frame.empty:
            return
        yield Prose(text="Why is int4 x bf16 decode slower than fp8?")
        for sentence in answer(frame, calibration):
            yield Prose(text=sentence)
        won, source = mixed_section.winners(frame), mixed_section.WINNERS_SOURCE
        if won.empty:
            yield _absent("No shape has a time in int4 and in another format: no crossover map.")
        yield from self._drawn([draw_crossover(won)], source)
        if len(won):
            name = "Fastest format of the weights, and the fastest other one"
            yield self._table("mixed-winners", name, won, mixed_section.WINNERS, source)
        yield from self._drawn([mixed.draw_bandwidth(frame, calibration, a.spec)])
        roofs, source = mixed_section.roofs_table(frame, calibration), mixed_section.ROOFS_SOURCE
        if roofs.empty:
            yield _absent("No roofs of narrow weights: probe_mixed_gemm was not calibrated.")
        yield from self._drawn([mixed.draw_roofs(frame, calibration)])
        if len(roofs):
            name = "Which roof binds, by tokens"
            yield self._table("mixed-roofs", name, roofs, mixed_section.ROOF_COLUMNS, source)
        name = "Error of the kernel and of the format, kept apart"
        errors, source = mixed_section.errors_table(frame), mixed_section.ERRORS_SOURCE
        yield self._table("mixed-errors", name, errors, mixed_section.ERRORS, source)

    def _breakeven(self) -> Iterator[Block]:
        if self.a.breakeven.empty:
            yield _absent("This run has no break-even map of linears.")
            return
        picture = draw_breakeven(self.a.breakeven)
        yield from self._drawn([picture], breakeven_section.SOURCE, map_command(self.a.run))
        shown, wanted = smallest_m(self.a.breakeven), breakeven_section.COLUMNS
        name = "Smallest m from which on a linear is faster than in bf16; none: never up to 131,072"
        yield self._table("breakeven-m", name, shown, wanted, breakeven_section.SOURCE)

    def _bandwidth(self) -> Iterator[Block]:
        a, calibration = self.a, self.a.run.calibration
        streams = a.frames.get("probe_copy")
        if streams is None or streams.empty:
            yield _absent("The memory probe was not measured.")
        else:
            drawn = bandwidth.draw_streams(streams, calibration, a.spec, a.cache_bytes)
            yield from self._drawn([drawn])
        for op in self._studies():
            yield from self._drawn([bandwidth.draw_casts(a.frames[op], calibration, a.spec)])

    def _llm(self) -> Iterator[Block]:
        if self.a.llm.empty:
            yield _absent("This run has no estimates of language models.")
            return
        picture = draw_llm(self.a.llm)
        yield from self._drawn([picture], llm_section.SOURCE, llm_command(self.a.run))
        shown, wanted = llm_section.by_cut(self.a.llm), llm_section.COLUMNS
        name = "Language models by recipe and cut: one request, and the largest batch that fits"
        yield self._table("llm-cuts", name, shown, wanted, llm_section.SOURCE)

    def _audit(self) -> Iterator[Block]:
        table = self.a.violations
        yield Prose(
            text="A point whose whole interval lies below the least time of a roof says that the "
            "roof is wrong, that the data came from the cache, or that the timer is broken. Points "
            "timed hot are left out: their data stays in the cache on purpose."
        )
        if table.empty:
            yield Prose(text="There is none.")
            return
        counted = roofs_beaten(table)
        yield self._table("causes", "Roofs beaten, and the likely cause", counted, columns.CAUSES)
        shown = columns.with_protocol(table)
        name = "Points faster than a roof"
        yield self._table("violations", name, shown, columns.VIOLATIONS, "violations.csv")

    def _methods(self) -> Iterator[Block]:
        table = self.a.panel
        if table.empty:
            yield _absent("This run has no method panel.")
            return
        yield from self._drawn([panel.draw_panel(table)])
        shown = with_shape(columns.with_protocol(table))
        name = "The same points by every method"
        yield self._table("panel", name, shown, columns.PANEL, "method_panel.csv")

    def _moved(self) -> Iterator[Block]:
        """Nothing, and so no section, for the first environment of a device."""
        found = self.a.moved
        if found is None:
            return
        for sentence in moved_section.sentences(found):
            yield Prose(text=sentence)
        for name, title, frame, wanted in moved_section.tables(found):
            if len(frame):
                yield self._table(f"moved-{name}", title, frame, wanted)
        yield Commands(lines=[moved_section.command(found)])

    def _missing(self) -> Iterator[Block]:
        table = self.a.missing
        if table.empty:
            yield Prose(text="Every planned point has a time.")
            return
        counted = pd.concat(
            [reasons(group) for _, group in table.groupby("op")], ignore_index=True
        ).sort_values("count", ascending=False, kind="stable")
        yield self._table("reasons", "Reasons", counted, columns.REASONS)
        shown = columns.with_protocol(table)
        name = "Every point that is not ok"
        yield self._table("missing-all", name, shown, columns.MISSING_POINTS, "not_ok.csv")

    def _quality(self) -> Iterator[Block]:
        a = self.a
        name = "How each op was measured"
        yield self._table("quality-ops", name, a.quality, columns.QUALITY, "quality.csv")
        yield from self._drawn([session.draw_session(a.frames, a.sessions)])
        for op in self._studies():
            yield from self._drawn([session.draw_burst(a.frames[op])])

    def _points(self) -> Iterator[Block]:
        for op, frame in self.a.frames.items():
            if frame.empty:
                yield _absent(f"The plan of {op} is empty.")
                continue
            shown = columns.with_shown(frame)
            wanted = columns.point_columns(axes_of(frame))
            yield self._table(f"points-{op}", f"Points of {op}", shown, wanted, self._csv(op))

    def _provenance(self) -> Iterator[Block]:
        a = self.a
        if a.every_session:
            name = "Sessions: when, where, of which code, by which command"
            table = sessions_table(a.every_session)
            yield self._table("sessions", name, table, columns.SESSIONS)
        if a.spec is not None and a.spec.sources:
            sources = pd.DataFrame(sorted(a.spec.sources.items()), columns=["figure", "source"])
            kinds = (columns.text("figure", "figure"), columns.wide("source", "source"))
            yield self._table("sources", "Sources of the datasheet", sources, kinds)
        yield Prose(text="From the records to this chapter again, in a checkout of roofcal:")
        yield Commands(lines=commands(a))

    def _studies(self) -> list[str]:
        """Study ops with at least one point."""
        found = self.a.frames.items()
        return [op for op, frame in found if BY_NAME[op].role == "study" and len(frame)]

    def _csv(self, op: str) -> str:
        return f"{self.a.device}_{op}.csv"

    def _table(
        self,
        name: str,
        title: str,
        frame: pd.DataFrame,
        wanted: Sequence[Column],
        source: str = "",
    ) -> Table:
        return make_table(frame, wanted, id=f"{self.anchor}-{name}", caption=title, source=source)

    def _drawn(
        self, pictures: Sequence[Picture | None], source: str = "", command: str = ""
    ) -> Iterator[Block]:
        """Figures; source and command: of the data, where it is not the tidy table of the op."""
        for picture in pictures:
            if picture is None:
                continue
            prefix = f"{self._prefix}{next(self._figures)}x"
            title, paragraphs = caption(picture.key)
            yield FigureBlock(
                id=f"{self.anchor}-figure-{picture.key}-{picture.op}",
                title=title,
                op=picture.op,
                svg=inline_svg(picture.figure, prefix, picture.alt),
                caption=paragraphs,
                facts=picture.facts,
                source=source or self._csv(picture.op),
                command=command or table_command(self.a.run, picture.op),
            )


def _absent(text: str) -> Prose:
    return Prose(text=text, quiet=True)
