import base64

import pytest
import yaml

from qosmanager.kubernetes.access import Access, AccessError, Inline, Server, from_kubeconfig, in_cluster

SECRET = "very-secret-token"


def kubeconfig(tmp_path, *, cluster=None, user=None, context="here"):
    document = {
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": "https://api.test:6443/base/"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_pod_has_a_service_account(tmp_path):
    (tmp_path / "token").write_text("t")
    found = in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)
    assert found == Access(server=Server("10.0.0.1", 443, "", "10.0.0.1"), authorities=tmp_path / "ca.crt", token=tmp_path / "token")


@pytest.mark.parametrize(
    "environment", [{}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "x"}]
)
def test_elsewhere_there_is_none(tmp_path, environment):
    with pytest.raises(AccessError, match="--kubeconfig FILE"):
        in_cluster(environment, tmp_path)


def test_files_are_relative_to_the_kubeconfig(tmp_path):
    path = kubeconfig(
        tmp_path,
        cluster={"certificate-authority": "ca.pem", "tls-server-name": "other.test"},
        user={"tokenFile": "token", "client-certificate": "/etc/c.pem", "client-key": "keys/k.pem"},
    )
    found = from_kubeconfig(path)
    assert found.server == Server("api.test", 6443, "/base", "other.test")
    assert found.server.url == "https://api.test:6443/base"
    assert (found.authorities, found.token.current()) == (tmp_path / "ca.pem", tmp_path / "token")
    assert str(found.certificate) == "/etc/c.pem"
    assert found.key == tmp_path / "keys/k.pem"


def test_inline_data_is_never_shown(tmp_path):
    data = base64.b64encode(SECRET.encode()).decode()
    found = from_kubeconfig(kubeconfig(tmp_path, user={"token": SECRET, "client-certificate-data": data, "client-key-data": data}))
    assert found.token.current() == found.key == Inline(SECRET.encode())
    assert SECRET not in repr(found)
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cluster": {"insecure-skip-tls-verify": True}}, "insecure-skip-tls-verify is not allowed"),
        ({"cluster": {"proxy-url": "http://proxy"}}, "proxy-url is not allowed"),
        ({"cluster": {"server": "http://api.test"}}, "https://HOST"),
        ({"cluster": {"server": "https://user:pass@api.test"}}, "https://HOST"),
        ({"cluster": {"server": "https://api.test:port"}}, "no address"),
        ({"user": {"exec": {"command": "aws"}}}, "exec and auth-provider are not allowed"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "exec and auth-provider are not allowed"),
        ({"user": {"username": "admin"}}, "username and impersonation are not allowed"),
        ({"user": {"client-certificate": "c.pem"}}, "needs its key"),
        ({"user": {"client-key-data": "%%%"}}, "not base64"),
        ({"user": {"token": ["list"]}}, "is no kubeconfig"),
        ({"context": "there"}, "'there' is not allowed; one of these is: here"),
    ],
)
def test_what_would_not_be_done_as_written_is_refused(tmp_path, given, said):
    path = kubeconfig(tmp_path, **given)
    with pytest.raises(AccessError, match=said) as error:
        from_kubeconfig(path)
    assert "\n" not in str(error.value)


def test_a_broken_file_is_named_without_what_it_holds(tmp_path):
    path = tmp_path / "config"
    path.write_text(f"users:\n- token: {SECRET}\n  x: [")
    with pytest.raises(AccessError, match="is not YAML") as error:
        from_kubeconfig(path)
    assert SECRET not in str(error.value)
    with pytest.raises(AccessError, match="cannot be read"):
        from_kubeconfig(tmp_path / "nothing")
