"""Programs of another user of the nodes, as text. Each tries to access a job."""

SUBMITS = """
import json, sys
from jupyter_slurm.job import read_result_variables
from jupyter_slurm.jobs.service import Service
from tests.jobs.conftest import spec
code, options, names = json.load(sys.stdin)
service = Service()
job = service.submit(spec(code, launch="ray", options=options, names_out=tuple(names)))
cursor = ""
while not service.job(job.id).state.final:
    cursor = service.changes(cursor, 30.0).cursor
print(service.job(job.id).state.value, json.dumps(read_result_variables(service.result(job.id))))
service.close()
"""
"""Program that submits a cell with Ray through the API, as its own user, and prints the end."""
KNOCKS = r"""
import json, os, socket, sys
from concurrent import futures
asked = json.load(sys.stdin)
told = {"ports": [], "sockets": {}, "read": [], "words": []}
def hear(sock, said):
    heard = b""
    sock.settimeout(3)
    try:
        sock.sendall(said)
        while len(heard) < 1 << 20:
            more = sock.recv(65536)
            if not more:
                break
            heard += more
    except OSError:
        pass
    sock.close()
    return heard.decode("latin-1")
SAYS = [os.urandom(64)] + [
    b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path
    for path in (b"/", b"/metrics", b"/data/runs", b"/api/jobs/", b"/info/main/workers.html")
]
def knock(door):
    (host, port), said = door
    try:
        return port, hear(socket.create_connection((host, port), 3), said)
    except OSError as error:
        return port, str(error)
with futures.ThreadPoolExecutor(16) as pool:
    doors = [(where, said) for where in asked["ports"] for said in SAYS]
    told["ports"] = list(pool.map(knock, doors))
for path in asked["sockets"]:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(5)
    try:
        sock.connect("\0" + path[1:] if path.startswith("@") else path)
    except OSError as error:
        told["sockets"][path] = type(error).__name__
        continue
    told["sockets"][path] = hear(sock, SAYS[1])
places = asked["places"]
for pid in asked["pids"]:
    places += ["/proc/%d/%s" % (pid, name) for name in ("environ", "mem", "maps", "fd", "cwd")]
for place in places:
    for folder, folders, files in [(place, [], [""])] + list(os.walk(place)):
        for name in files:
            try:
                with open(os.path.join(folder, name) if name else folder, "rb") as file:
                    if os.fstat(file.fileno()).st_uid == asked["uid"]:
                        told["read"].append(file.name)
            except OSError:
                pass
        told["read"] += [os.path.join(folder, name) for name in folders]
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                told["words"].append(file.read().decode("latin-1"))
        except OSError:
            pass
print(json.dumps(told))
"""
"""Program that connects to each port without a secret, and reads files and processes."""
RAYS_CLIENT = """
import ray, sys
ray.init(address=sys.argv[1])
print(ray.nodes())
"""
RAYS_CALLS = """
import collections, grpc, json, sys
METHODS = '''
NodeInfoGcsService/GetAllNodeInfo NodeInfoGcsService/GetClusterId
InternalKVGcsService/InternalKVKeys JobInfoGcsService/GetAllJobInfo
ActorInfoGcsService/GetAllActorInfo
NodeManagerService/GetNodeStats NodeManagerService/RequestWorkerLease
ObjectManagerService/Pull ObjectManagerService/Push
CoreWorkerService/GetCoreWorkerStats CoreWorkerService/PushTask CoreWorkerService/Exit
RayletDriver/ClusterInfo RayletDriver/Init RayletDriver/KVList ReporterService/GetTraceback
'''.split()
same = lambda data: data
found = collections.defaultdict(set)
for where in sys.argv[1:]:
    for sent in ((), (("authorization", "Bearer " + "0" * 64),)):
        channel = grpc.insecure_channel(where)
        for method in METHODS:
            call = channel.unary_unary("/ray.rpc." + method, same, same)
            try:
                call(b"", timeout=60, metadata=sent)
                found[where].add("answers " + method)
            except grpc.RpcError as error:
                found[where].add(error.code().name)
        channel.close()
print(json.dumps({where: sorted(codes) for where, codes in found.items()}))
"""
"""Program that calls Ray's services with Ray's own programs, without a token and with a wrong
token."""
DASKS_CLIENT = """
import socket, ssl, sys
from distributed import Client
from distributed.security import Security
address, certificate, key, *ports = sys.argv[1:]
own = Security(
    tls_ca_file=certificate, tls_client_cert=certificate, tls_client_key=key,
    require_encryption=True,
)
for security in (None, own):
    try:
        print("came in", Client(address, security=security, timeout=5).scheduler_info())
    except (OSError, TypeError, ValueError) as error:
        print("stayed out", type(error).__name__)
for port in ports:  # without looking at whom it talks to
    for shown in (False, True):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if shown:
            context.load_cert_chain(certificate, key)
        host, _, number = port.rpartition(":")
        try:
            plain = socket.create_connection((host, int(number)), 5)
            with context.wrap_socket(plain) as sock:
                print("came in" if sock.recv(1) else "stayed out")
        except OSError:
            print("stayed out")
"""
