"""Examples of the rule of the same name."""

from tests.policy.examples.declare import domain, sheet

PASSING = {"the project's": domain(), "empty": domain(graphics=None, video=[])}
FAILING = {
    "no stylesheet": domain(xslt=None),
    "no xml": domain(xslt="<"),
    "property": domain(graphics={"type": "vnc"}),
    "video": domain(video={"type": "qxl"}),
    "element": domain(xslt=sheet("<domain><graphics type='spice'/></domain>")),
    "sound": domain(xslt=sheet("<domain><sound model='ich9'/></domain>")),
    "usb": domain(xslt=sheet("<domain><redirdev bus='usb'/></domain>")),
}
