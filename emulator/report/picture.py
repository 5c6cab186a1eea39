"""The picture of a fabric: links as wide and as dark as the bytes that they carried, nodes with what they received."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from emulator.model.fabric import Fabric, Link, Node, Role
from emulator.report.figures import with_unit
from emulator.report.layout import MARGIN, Layout, lay_out
from emulator.results.side import Counters, PortCounters
from emulator.units import format_rate, format_time

ROLE_COLOURS: Mapping[Role, tuple[str, str]] = {
    Role.SWITCH: ("#f5f7fa", "#52606d"),
    Role.GPU: ("#e3f8e9", "#1b7f3b"),
    Role.COMPUTE: ("#fff1d6", "#b25e00"),
    Role.ROUTER: ("#fde8e8", "#b42318"),
    Role.GATEWAY: ("#dbeafe", "#0b63b0"),
    Role.STORAGE: ("#ede9fe", "#6d28d9"),
    Role.HOST: ("#eef2f6", "#3e4c59"),
    Role.FORWARDER: ("#f5f7fa", "#52606d"),
}
"""Fill and outline."""

_LIGHT, _DARK = (203, 210, 217), (11, 61, 110)
_THIN, _WIDE = 1.2, 9.0
_BOX_WIDTH = 82.0


def draw(fabric: Fabric, counters: Counters | None, title: str, scale_bytes: int | None = None) -> str:
    """Draw a fabric as SVG markup.

    Args:
        fabric: What is drawn.
        counters: Bytes that its ports carried; None: all links look alike.
        title: What the picture shows, for those who do not see it.
        scale_bytes: Bytes at which a link is drawn widest; None: those of the busiest link.
    """
    layout = lay_out(fabric)
    ports = counters.tx_by_interface() if counters else {}
    most = scale_bytes or max((_carried(link, ports) for link in fabric.links), default=0)
    parts = [
        f'<svg viewBox="0 0 {layout.width:.0f} {layout.height:.0f}" width="{layout.width:.0f}" role="img" '
        f'class="fabric" aria-label="{escape(title, quote=True)}" xmlns="http://www.w3.org/2000/svg">'
    ]
    parts += [_zone(zone.name, zone.left, zone.right, layout.height) for zone in layout.zones]
    # The busiest are drawn last, so that they lie on top.
    for link in sorted(fabric.links, key=lambda link: (_carried(link, ports), link.name)):
        parts.append(_link(link, layout, ports, most))
    parts += [_node(node, layout, fabric, ports) for node in fabric.nodes]
    parts.append("</svg>")
    return "\n".join(parts)


def busiest_link_bytes(fabric: Fabric, counters: Counters | None) -> int:
    """Bytes, both directions together, of a fabric's busiest link."""
    ports = counters.tx_by_interface() if counters else {}
    return max((_carried(link, ports) for link in fabric.links), default=0)


def described(fabric: Fabric, counters: Counters | None) -> str:
    """The picture in words: its size and its five busiest links."""
    words = f"{len(fabric.hosts)} hosts, {len(fabric.switches)} switches and {len(fabric.links)} links"
    ports = counters.tx_by_interface() if counters else {}
    busy = sorted(fabric.links, key=lambda link: (-_carried(link, ports), link.name))[:5]
    loads = [f"{link.a} to {link.b} {with_unit(_carried(link, ports), 'B')}" for link in busy if _carried(link, ports)]
    return f"{words}; the busiest links carried: {', '.join(loads)}" if loads else words


def _sent(interface: str, ports: Mapping[str, PortCounters]) -> int:
    return ports[interface].tx_bytes if interface in ports else 0


def _carried(link: Link, ports: Mapping[str, PortCounters]) -> int:
    return _sent(link.a_interface, ports) + _sent(link.b_interface, ports)


def _element(tag: str, content: str = "", **attributes: str | float) -> str:
    """One SVG element; underscores in attribute names stand for hyphens, numbers get one decimal."""
    texts = (
        f'{name.rstrip("_").replace("_", "-")}="{value if isinstance(value, str) else format(value, ".1f")}"'
        for name, value in attributes.items()
    )
    return f"<{tag} {' '.join(texts)}>{content}</{tag}>"


def _hint(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _zone(name: str, left: float, right: float, height: float) -> str:
    box = _element(
        "rect", x=left, y=MARGIN / 2, width=right - left, height=height - MARGIN, rx=10.0, fill="#fafbfc",
        stroke="#cbd2d9", stroke_dasharray="5 4",
    )  # fmt: skip
    return box + _element("text", f"zone {escape(name)}", x=left + 14, y=MARGIN / 2 + 20, class_="zone")


def _link(link: Link, layout: Layout, ports: Mapping[str, PortCounters], most: int) -> str:
    (x1, y1), (x2, y2) = layout.places[link.a], layout.places[link.b]
    # The eye judges areas: by the square root, a tenth of the load stays visible.
    share = min((_carried(link, ports) / most) ** 0.5, 1.0) if most else 0.0
    tones = (round(light + (dark - light) * share) for light, dark in zip(_LIGHT, _DARK, strict=True))
    bend = f"L{x2:.1f} {y2:.1f}"
    if y1 == y2 and abs(x1 - x2) > 2 * _BOX_WIDTH:
        # Links within a row bend upwards, so that they do not hide behind the nodes between their ends.
        rise = min(80.0, 0.24 * abs(x1 - x2))
        bend = f"Q{(x1 + x2) / 2:.1f} {y1 - rise:.1f} {x2:.1f} {y2:.1f}"
    return _element(
        "path",
        _hint(_link_words(link, ports)),
        d=f"M{x1:.1f} {y1:.1f} {bend}",
        fill="none",
        stroke="#{:02x}{:02x}{:02x}".format(*tones),
        stroke_width=_THIN + (_WIDE - _THIN) * share,
        stroke_linecap="round",
    )


def _link_words(link: Link, ports: Mapping[str, PortCounters]) -> str:
    rate, delay = format_rate(link.spec.rate_bps), format_time(link.spec.delay_ns)
    words = f"{link.a_interface} – {link.b_interface}: {rate}, {delay}"
    if not ports:
        return words
    there, back = (with_unit(_sent(end, ports), "B") for end in (link.a_interface, link.b_interface))
    ends = [ports[end] for end in (link.a_interface, link.b_interface) if end in ports]
    words = f"{words}; {there} from {link.a}, {back} from {link.b}, {sum(end.drops for end in ends)} drops"
    by_class: dict[str, int] = {}
    for one in (one for end in ends for one in end.classes):
        by_class[one.name] = by_class.get(one.name, 0) + one.drops
    if not by_class:
        return words
    return f"{words} ({', '.join(f'{drops} of {name}' for name, drops in by_class.items())} in the queues)"


def _node(node: Node, layout: Layout, fabric: Fabric, ports: Mapping[str, PortCounters]) -> str:
    x, y = layout.places[node.name]
    fill, ink = ROLE_COLOURS[node.role]
    far_ends = [link.b_interface if link.a == node.name else link.a_interface for link in fabric.links_of(node.name)]
    received = with_unit(sum(_sent(end, ports) for end in far_ends), "B")
    words = f"{node.name}: {node.role.value}" + (f", {node.ip}" if node.ip else "")
    hint = _hint(f"{words}; received {received}" if ports else words)
    if not layout.labelled and not node.is_switch:
        return _element("circle", hint, cx=x, cy=y, r=5.0, fill=fill, stroke=ink)
    lines = [("name", node.name)]
    if not node.is_switch:
        lines += [("role", node.role.value)] + ([("load", f"in {received}")] if ports else [])
    height = 16.0 + 13.0 * len(lines)
    box = _element(
        "rect", x=x - _BOX_WIDTH / 2, y=y - height / 2, width=_BOX_WIDTH, height=height,
        rx=3.0 if node.is_switch else 8.0, fill=fill, stroke=ink,
    )  # fmt: skip
    first = y - 6.5 * (len(lines) - 1) + 4
    texts = (
        _element("text", escape(text), x=x, y=first + 13.0 * row, class_=style, fill=ink)
        for row, (style, text) in enumerate(lines)
    )
    return f"<g>{hint}{box}{''.join(texts)}</g>"
