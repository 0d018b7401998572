"""Examples of the rule of the same name."""

from tests.policy.examples.declare import domain, sheet

FILTERREF = "<filterref filter='abox-dev'/>"
IDENTITY = (
    "<xsl:template match='node()|@*'><xsl:copy><xsl:apply-templates select='node()|@*'/>"
    "</xsl:copy></xsl:template>"
)


def matching(content: str) -> str:
    return sheet(
        f"{IDENTITY}<xsl:template match='/domain/devices/interface'>{content}</xsl:template>"
    )


PASSING = {
    "the project's": domain(),
    "by a template": domain(xslt=matching(FILTERREF)),
    "no interface": domain(xslt=None, networkInterfaces=[]),
    "written out": domain(xslt=sheet(f"<domain><interface>{FILTERREF}</interface></domain>")),
}
FAILING = {
    "no stylesheet": domain(xslt=None),
    "empty stylesheet": domain(xslt=""),
    "no xml": domain(xslt="<xsl"),
    "identity": domain(xslt=sheet(IDENTITY)),
    "template without": domain(xslt=matching("<xsl:copy/>")),
    "written out without": domain(xslt=sheet("<domain><interface/></domain>")),
    "one of two": domain(
        xslt=sheet(f"<domain><interface>{FILTERREF}</interface><interface/></domain>")
    ),
    "empty name": domain(xslt=matching("<filterref filter=''/>")),
    "copied beside": domain(
        xslt=sheet(
            f"<domain><interface>{FILTERREF}</interface><xsl:copy-of select='devices/interface'/>"
            "</domain>"
        )
    ),
    "all copied": domain(
        xslt=sheet(f"<x><interface>{FILTERREF}</interface><xsl:copy-of select='devices'/></x>")
    ),
}
UNKNOWN_IN_PREVIEW = {"networkInterfaces": lambda **changed: domain(xslt=None, **changed)}
