use super::*;

const TOKEN: &str = "0123456789abcdef";

fn doors(bound: &str, with_token: bool) -> Doors {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    // Not the variable of the process that runs the tests.
    let token = with_token.then(|| AdminToken::find(Some(&file)).unwrap().unwrap());
    Doors::new(bound.parse().unwrap(), token)
}

fn ask(doors: &Doors, method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), Door> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap());
    }
    doors.admit(&method.parse().unwrap(), &uri.parse().unwrap(), &map)
}

#[test]
fn a_port_of_this_machine_takes_requests_that_name_this_machine() {
    for bound in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
        let doors = doors(bound, false);
        for host in ["localhost", "LocalHost:8120", "127.0.0.1:8120", "127.1.2.3", "[::1]:8120", "[::1]"] {
            assert_eq!(ask(&doors, "GET", "/metrics", &[("host", host)]), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "evil.example:8120", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil", "", "a b"]
        {
            assert_eq!(ask(&doors, "GET", "/metrics", &[("host", host)]), Err(Door::Host), "{host}");
            assert_eq!(ask(&doors, "POST", "/api/v1/stop", &[("host", host)]), Err(Door::Host), "{host}");
            assert_eq!(ask(&doors, "GET", "/healthz", &[("host", host)]), Ok(()), "{host}");
        }
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(ask(&doors, "GET", "/metrics", &two), Err(Door::Host));
        let absolute = "http://evil.example/metrics";
        assert_eq!(ask(&doors, "GET", absolute, &[("host", "localhost")]), Err(Door::Host));
        assert_eq!(ask(&doors, "GET", "/metrics", &[]), Ok(()), "no browser leaves the host out");
        for trick in ["/healthz/", "//healthz", "/healthz/../metrics", "/metrics?x=/healthz", "/%68ealthz"] {
            assert_eq!(ask(&doors, "GET", trick, &[("host", "evil.example")]), Err(Door::Host), "{trick}");
        }
    }
    assert_eq!(ask(&doors("10.0.0.1", false), "GET", "/metrics", &[("host", "any.example")]), Ok(()));
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let doors = doors("127.0.0.1", false);
    let host = ("host", "localhost:8120");
    let ask = |method, header| ask(&doors, method, "/reload", &[host, header]);
    for header in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost:3000"),
        ("origin", "http://localhost:8120.evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        assert_eq!(ask("POST", header), Err(Door::Origin), "{header:?}");
        assert_eq!(ask("GET", header), Ok(()), "{header:?}");
    }
    for header in [
        ("origin", "http://localhost:8120"),
        ("origin", "http://LOCALHOST:8120"),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
    ] {
        assert_eq!(ask("POST", header), Ok(()), "{header:?}");
    }
}

#[test]
fn changing_needs_the_token_if_there_is_one_and_is_closed_to_others_without() {
    let bearer = |token: &str| format!("Bearer {token}");
    for bound in ["127.0.0.1", "0.0.0.0"] {
        let doors = doors(bound, true);
        let ask = |method, headers: &[(&str, &str)]| ask(&doors, method, "/reload", headers);
        assert_eq!(ask("GET", &[]), Ok(()));
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
            assert_eq!(ask(method, &[]), Err(Door::Token), "{method}");
        }
        assert_eq!(ask("POST", &[("authorization", &bearer(TOKEN))]), Ok(()));
        assert_eq!(ask("POST", &[("authorization", &format!("bearer  {TOKEN} "))]), Ok(()));
        for wrong in ["", "Bearer", "Bearer ", TOKEN, &bearer("0123456789abcdeg"), &format!("Basic {TOKEN}")] {
            assert_eq!(ask("POST", &[("authorization", wrong)]), Err(Door::Token), "{wrong}");
        }
        let twice = [("authorization", &*bearer(TOKEN)), ("authorization", "Bearer x")];
        assert_eq!(ask("POST", &twice), Err(Door::Token));
    }
    assert_eq!(ask(&doors("127.0.0.1", false), "POST", "/reload", &[]), Ok(()));
    for bound in ["0.0.0.0", "::", "10.0.0.1"] {
        let doors = doors(bound, false);
        assert_eq!(ask(&doors, "POST", "/reload", &[("authorization", &bearer(TOKEN))]), Err(Door::Closed));
        assert_eq!(ask(&doors, "HEAD", "/metrics", &[]), Ok(()));
    }
}

#[test]
fn refusals_are_counted_by_door() {
    let doors = doors("127.0.0.1", true);
    Door::ALL.iter().for_each(|&door| doors.note(door, None));
    doors.note(Door::Token, Some(&Peer("127.0.0.1:1".parse().unwrap())));
    assert_eq!(doors.refused(), [("host", 1), ("origin", 1), ("token", 2), ("closed", 1)]);
    assert!(!format!("{doors:?}").contains(TOKEN));
}
