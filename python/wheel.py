"""Packs the package and its library into a wheel, with the standard library alone: wheel.py VERSION FOLDER"""

import base64
import hashlib
import pathlib
import sys
import sysconfig
import zipfile

version, folder = sys.argv[1], pathlib.Path(sys.argv[2])
tag = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")  # any Python 3, one system and processor
info = f"gnnsched-{version}.dist-info"
source = pathlib.Path(__file__).resolve().parent / "gnnsched"
files = {f"gnnsched/{p.name}": p.read_bytes() for p in sorted(source.iterdir()) if p.suffix in (".py", ".so")}
if not any(name.endswith(".so") for name in files):
    sys.exit("wheel.py: the library is missing: run make python first")
files[f"{info}/METADATA"] = (
    f"Metadata-Version: 2.1\nName: gnnsched\nVersion: {version}\nSummary: Kubernetes scheduling as reinforcement-learning environments\n"
    "Requires-Python: >=3.10\nRequires-Dist: numpy\nProvides-Extra: gymnasium\nRequires-Dist: gymnasium>=1.1; extra == 'gymnasium'\n").encode()
files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: gnnsched\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
record = ""
for name, data in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record += f"{name},sha256={digest},{len(data)}\n"
files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
folder.mkdir(parents=True, exist_ok=True)
path = folder / f"gnnsched-{version}-{tag}.whl"
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
    for name, data in files.items():
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
        out.writestr(entry, data)
print(path)
