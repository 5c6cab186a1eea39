"""For stock Mininet: ``sudo mn --custom topologies/mn.py --topo icgw,gpus=4,storage=2 --test pingall``.

Topologies ``chain``, ``dumbbell``, ``icgw`` and ``single``; supernodes ``torus3d``, ``tree``, ``fat_tree``,
``dual_plane``, ``cascade`` and ``dragonfly``, whose cards forward for each other: ``--topo torus3d,4,4,4``. ``--link
icgw`` shapes links, ``--host lazy`` starts hosts without a process. Mininet executes this file without telling it where
it is, so it asks its own code object.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from topologies.mn_parts import LINKS, cleanup, hosts, links, switches, topos, validate

__all__ = ["LINKS", "cleanup", "hosts", "links", "switches", "topos", "validate"]
