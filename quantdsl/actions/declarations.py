"""Actions for QuantDSL's declarations: modules, constants, markets, risk, strategies and signals."""

from collections.abc import Sequence
from typing import ClassVar

from compiler.source import Span
from compiler.syntax.declarations import DeclarationActions, Result, Signature, with_bounds
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean, nearest
from grammars.clauses import CLAUSES
from grammars.faults import Token
from quantdsl import nodes as quant
from quantdsl.actions.clauses import LinkWord, Part, fit
from quantdsl.actions.expressions import QuantExpressions
from runtime.records import evolve

_IN_STRATEGIES = (
    quant.RiskNamed,
    quant.Accounting,
    quant.State,
    quant.Handler,
    nodes.Constant,
    nodes.Function,
    nodes.Struct,
    nodes.EnumDeclaration,
    nodes.TypeAlias,
    nodes.Let,
)
_Clauses = tuple["_RawClause", ...]


class QuantDeclarations(DeclarationActions, QuantExpressions):
    effects: ClassVar[tuple[str, ...]] = ("none", "alloc", "io")

    def program(self, start: int, end: int, statements: list[nodes.Statement]) -> nodes.Program:
        program = super().program(start, end, statements)
        for statement in program.statements:
            if not isinstance(statement, nodes.Declaration):
                shown = self._begin(statement)
                self.fault_at(
                    "0101",
                    f"`{shown}` stands outside of any declaration",
                    evolve(statement, span=Span(self.file, statement.span.start, statement.span.start + len(shown))),
                    "a QuantDSL program consists of declarations: put it into a handler of a `strategy`, a `fn` or a `test`",
                )
        return program

    def _begin(self, statement: nodes.Statement) -> str:
        """The first word or sign of a statement."""
        text = self.text[statement.span.start - self.offset : statement.span.end - self.offset]
        word = text.split(None, 1)[0] if text.split() else text
        return word[: next((at for at, c in enumerate(word) if not (c.isalnum() or c == "_")), len(word))] or word[:1]

    # ---- modules and constants --------------------------------------------------------------------------------------------

    def module(self, start: int, end: int, path: tuple[str, ...]) -> nodes.Declaration:
        return nodes.Module(path=path, span=self.span(start, end))

    def use(self, start: int, end: int, module: tuple[str, ...], alias: Token | None) -> nodes.Declaration:
        return nodes.Import(form=nodes.ImportForm.MODULE, module=module, alias=alias.text if alias else None, span=self.span(start, end))

    def constant(
        self, start: int, end: int, name: Token, annotation: nodes.TypeSyntax | None, value: nodes.Expression
    ) -> nodes.Declaration:
        return nodes.Constant(name=name.text, annotation=annotation, value=value, span=self.span(start, end))

    def extern_with_effects(self, start: int, end: int, function: nodes.Function, *effects: Token) -> nodes.Declaration:
        for effect in effects:
            if effect.text not in self.effects:
                self.fault(
                    "0101",
                    f"`{effect.text}` is no effect",
                    effect.start,
                    effect.end,
                    f"effects are {', '.join(f'`{known}`' for known in self.effects)}",
                )
        words = tuple(dict.fromkeys(effect.text for effect in effects))
        if "none" in words and len(words) > 1:
            self.fault("0101", "`none` stands among effects", effects[0].start, effects[-1].end, "write `effects(none)` alone")
        return evolve(function, is_extern=True, effects=tuple(w for w in words if w != "none"), span=self.span(start, end))

    # ---- currencies, instruments, risk ----------------------------------------------------------------------------------------

    def currency(self, start: int, end: int, name: Token, raw: _Clauses) -> nodes.Declaration:
        clauses = self._fitted("currency", name, raw)
        return quant.Currency(name=name.text, name_span=self.token_span(name), clauses=clauses, span=self.span(start, end))

    def instrument(self, start: int, end: int, name: Token, currency: Token, raw: _Clauses) -> nodes.Declaration:
        return quant.Instrument(
            name=name.text,
            name_span=self.token_span(name),
            currency=currency.text,
            currency_span=self.token_span(currency),
            clauses=self._fitted("instrument", name, raw),
            span=self.span(start, end),
        )

    def risk(self, start: int, end: int, name: Token, instrument: Token, raw: _Clauses) -> nodes.Declaration:
        return quant.Risk(
            name=name.text,
            name_span=self.token_span(name),
            instrument=instrument.text,
            instrument_span=self.token_span(instrument),
            clauses=self._fitted("risk", name, raw),
            span=self.span(start, end),
        )

    def clauses(self, start: int, end: int, *clauses: "_RawClause") -> _Clauses:
        return clauses

    def clause(self, start: int, end: int, word: LinkWord, *parts: Part) -> "_RawClause":
        return _RawClause(word, parts, self.span(start, end))

    def clause_word(self, start: int, end: int) -> LinkWord:
        return self.link(start, end)

    def link(self, start: int, end: int, *_arrow: Token) -> LinkWord:
        return LinkWord(self.text[start:end], self.span(start, end))

    def _fitted(self, declaration: str, name: Token, raw: _Clauses) -> tuple[quant.Clause, ...]:
        """The clauses of a block, each fitted to its form, once each, and none that is required missing."""
        forms = CLAUSES[declaration]
        clauses: dict[str, quant.Clause] = {}
        for clause in raw:
            word = clause.word.text
            if word not in forms:
                known = f"clauses are {', '.join(f'`{form}`' for form in forms)}"
                self._at("0201", f"`{declaration}` has no clause `{word}`", clause.word.span, did_you_mean(word, forms) or known)
                continue
            if word in clauses:
                self._at("0210", f"`{word}` stands twice in `{declaration} {name.text}`", clause.word.span, "keep one of the two")
                continue
            clauses[word] = self._fitted_clause(declaration, clause)
        for word, form in forms.items():
            if form.required and word not in clauses and not any(clause.word.text not in forms for clause in raw):
                message = f"`{declaration} {name.text}` has no `{word}`"
                self.fault("0101", message, name.start, name.end, f"add a clause like `{form.example}`")
        return tuple(clauses.values())

    def _fitted_clause(self, declaration: str, clause: "_RawClause") -> quant.Clause:
        word = clause.word.text
        form = CLAUSES[declaration][word]
        fitted = fit(form.form, clause.parts)
        if not fitted.whole or fitted.taken < len(clause.parts):
            beyond = clause.parts[fitted.taken] if fitted.taken < len(clause.parts) else None
            shown = self.text[beyond.span.start - self.offset : beyond.span.end - self.offset] if beyond else ""
            message = f"`{shown}` doesn't fit into the clause `{word}`" if beyond else f"the clause `{word}` is incomplete"
            meant = nearest(shown, CLAUSES[declaration])
            hint = f"did you mean the clause `{meant[0]}`?" if meant else f"write it like `{form.example}`"
            self._at("0101", message, beyond.span if beyond else clause.span, hint)
        return quant.Clause(name=word, name_span=clause.word.span, values=fitted.values, span=clause.span)

    def _at(self, code: str, message: str, span: Span, hint: str | None) -> None:
        self.fault(code, message, span.start - self.offset, span.end - self.offset, hint)

    # ---- strategies and signals -----------------------------------------------------------------------------------------------

    def strategy(self, start: int, end: int, name: Token, *parts: Token | nodes.Block) -> nodes.Declaration:
        body = parts[-1]
        assert isinstance(body, nodes.Block)
        for statement in body.statements:
            if not isinstance(statement, _IN_STRATEGIES):
                self.fault_at(
                    "0101",
                    f"`{self._begin(statement)}` can't stand directly in a strategy",
                    statement,
                    "a strategy holds `risk`, `accounting`, `state`, `const`, `let`, `fn`, types and handlers (`on trade(t) { }`)",
                )
        return quant.Strategy(
            name=name.text,
            name_span=self.token_span(name),
            instruments=tuple(quant.Traded(name=part.text, span=self.token_span(part)) for part in parts if isinstance(part, Token)),
            body=body,
            span=self.span(start, end),
        )

    def signal(self, start: int, end: int, signature: Signature, result: Result, body: nodes.Block) -> nodes.Declaration:
        name, generics, parameters = signature
        return quant.Signal(
            name=name.text,
            name_span=self.token_span(name),
            type_parameters=with_bounds(generics, result[1]),
            parameters=parameters or (),
            result=result[0],
            body=body,
            span=self.span(start, end),
        )


class _RawClause:
    """A clause as it was read, before it is fitted to its form."""

    def __init__(self, word: LinkWord, parts: Sequence[Part], span: Span) -> None:
        self.word = word
        self.parts = parts
        self.span = span
