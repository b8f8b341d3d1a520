"""A program's declarations by name, together with those of the prelude, and its markets with exact numbers."""

from fractions import Fraction

from compiler.diagnostics import Diagnostic, Diagnostics
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import Declarations
from compiler.typed_ast.literal_numbers import decimal
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import StructType
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl.check import library
from quantdsl.check.exact import MAX_SCALE, CheckedCurrency, CheckedInstrument, shown
from quantdsl.check.prelude import prelude
from quantdsl.types import MarketType
from runtime.records import Factory, define

Callee = nodes.Function | quant.Signal
Market = tuple[str | None, str | None]
"""The names of the instrument and the currency that `I` and `C` stand for."""


@define(eq=False)
class World:
    """What one program declares at its top, its markets, and what it uses of the standard library. `declared.functions` has the library's
    under `std.name`, and under their names where the program has nothing of that name."""

    declared: Declarations[Callee] = Factory(lambda: Declarations((nodes.Function, quant.Signal)))
    currencies: dict[str, CheckedCurrency] = Factory(dict)
    instruments: dict[str, CheckedInstrument] = Factory(dict)
    library: dict[str, Callee] = Factory(dict)

    @property
    def risks(self) -> dict[str, quant.Risk]:
        return {name: declaration for name, declaration in self.declared.own.items() if isinstance(declaration, quant.Risk)}

    @property
    def only_market(self) -> Market:
        """What `Price` and `Money` are of outside of strategies: of the only instrument and currency, if there is just one."""
        instruments, currencies = list(self.instruments), list(self.currencies)
        return instruments[0] if len(instruments) == 1 else None, currencies[0] if len(currencies) == 1 else None

    def struct_of(self, name: str, market: Market) -> StructType:
        """A struct without written arguments: one of a market is of the one in sight."""
        bounds = market_bounds(self.declared.structs[name])
        return StructType(name, tuple(MarketType(market[MARKET_BOUNDS.index(bound)]) for bound in bounds))

    def effects(self, callee: Callee) -> frozenset[str]:
        """What a call does beside computing, for functions that say so, and for those of the library: also what they call does."""
        if isinstance(callee, nodes.Function) and callee.effects is not None:
            return frozenset(callee.effects)
        if callee is not self.library.get(callee.name) or callee.body is None:
            return frozenset()
        functions = self.declared.functions
        calls = [found.function for found in walk(callee.body) if isinstance(found, nodes.Call)]
        called = [functions[name.name] for name in calls if isinstance(name, nodes.Name) and name.name in functions]
        methods = [one for call in calls if isinstance(call, nodes.Field) for one in self.declared.methods(call.name).values()]
        called += [one for one in methods if one.body is None]
        return frozenset(effect for one in called for effect in self.effects(one))


MARKET_BOUNDS = ("Instrument", "Currency")


def market_bounds(struct: nodes.Struct) -> list[str]:
    """For each type parameter of a struct that is of a market, whether it is an instrument or a currency."""
    bounds = (bound for parameter in struct.type_parameters for bound in parameter.bounds)
    return [bound.name for bound in bounds if isinstance(bound, nodes.NamedTypeSyntax) and bound.name in MARKET_BOUNDS]


def world_of(program: nodes.Program, diagnostics: Diagnostics) -> World:
    """The program's declarations; what is wrong with its markets is reported."""
    world = World()
    world.declared.declare_all(prelude().statements, own=False)
    world.library = library.used_by(program.statements)
    for name, declaration in world.library.items():
        world.declared.declare(declaration, own=False)
        world.declared.functions[library.INSIDE + name] = declaration
    for fault in world.declared.declare_all(program.statements):
        diagnostics.add(fault)
    for statement in program.statements:
        if isinstance(statement, quant.Currency) and (currency := _currency(statement, diagnostics)):
            world.currencies.setdefault(statement.name, currency)
    for statement in program.statements:
        if isinstance(statement, quant.Instrument) and (instrument := _instrument(statement, world, diagnostics)):
            world.instruments.setdefault(statement.name, instrument)
    return world


def clause(declaration: quant.Currency | quant.Instrument | quant.Risk, name: str) -> quant.Clause | None:
    return next((found for found in declaration.clauses if found.name == name), None)


def _currency(declaration: quant.Currency, diagnostics: Diagnostics) -> CheckedCurrency | None:
    found = clause(declaration, "scale")
    value = found.value("digits") if found else None
    digits = decimal(value) if value is not None else None
    if found is None or digits is None or digits.denominator != 1 or not 0 <= digits <= MAX_SCALE:
        diagnostics.add(
            Diagnostic(
                "0703",
                f"the scale of `{declaration.name}` is no whole number from 0 to {MAX_SCALE}",
                found.span if found else declaration.name_span,
                hint="`scale 8` keeps money in units of 0.00000001",
            )
        )
        return None
    return CheckedCurrency(declaration.name, int(digits))


def _instrument(declaration: quant.Instrument, world: World, diagnostics: Diagnostics) -> CheckedInstrument | None:
    currency = world.currencies.get(declaration.currency)
    if currency is None:
        if declaration.currency not in world.declared.own:
            hint = did_you_mean(declaration.currency, world.currencies) or f"declare it: `currency {declaration.currency} {{ scale 8 }}`"
            diagnostics.add(Diagnostic("0201", f"there is no currency `{declaration.currency}`", declaration.currency_span, hint=hint))
        elif not isinstance(world.declared.own[declaration.currency], quant.Currency):
            diagnostics.add(Diagnostic("0201", f"`{declaration.currency}` is no currency", declaration.currency_span))
        return None
    sizes: list[Fraction] = []
    for name, slot in (("tick", "size"), ("lot", "size"), ("multiplier", "factor")):
        found = clause(declaration, name)
        if found is None:
            sizes.append(Fraction(1))
            continue
        value = found.value(slot)
        number = decimal(value) if value is not None and not isinstance(value, nodes.UnitNumber) else None
        if number is None or number <= 0:
            message = f"the {name} of `{declaration.name}` is no number above 0"
            diagnostics.add(
                Diagnostic("0702", message, value.span if value is not None else found.span, hint=f"write it like `{name} 0.25`")
            )
            return None
        sizes.append(number)
    instrument = CheckedInstrument(declaration.name, currency, *sizes)
    if instrument.money_per_tick_and_lot.denominator != 1:
        _report_scale(declaration, instrument, diagnostics)
        return None
    return instrument


def _report_scale(declaration: quant.Instrument, instrument: CheckedInstrument, diagnostics: Diagnostics) -> None:
    step = shown(instrument.tick * instrument.lot * instrument.multiplier)
    scale = instrument.smallest_scale
    span = next((found.span for found in declaration.clauses if found.name == "tick"), declaration.span)
    diagnostics.add(
        Diagnostic(
            "0703",
            f"the scale of `{instrument.currency.name}` can't hold a tick of `{instrument.name}`",
            Span(span.path, span.start, span.end),
            notes=(f"tick x lot x multiplier is {step}, and the scale ends at {shown(instrument.currency.unit)}",),
            hint=f"the smallest scale that can is `scale {scale}`" if scale is not None else "no scale up to 18 can hold it",
        )
    )
