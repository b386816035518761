//! What works on a directory while a broker does is turned away.

use crate::ledger::read_log;
use crate::site::{Settings, Site};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_broker_and_the_commands_that_change_a_log_are_turned_away() {
    let site = Site::new(Settings { topics: "[topic=test]\n", ..Settings::default() });
    let broker = site.start();
    let mut client = broker.connect().await;
    client.put("test", 0, b"").await;

    let in_use = format!("the directory {} is in use by another broker", site.data().display());
    let mut second = site.launch();
    assert_eq!(second.wait().code(), Some(1));
    let told = second.wait_for_line(&in_use);
    assert!(told.contains("stop that one, or give this broker a dataPath and dataLogPath of its own"), "{told}");
    for command in
        [&["recover"][..], &["resolve", "test", "0", "--append"], &["resolve", "test", "0", "--keep-segment"]]
    {
        let (status, told) = site.log_command(command);
        assert!(status == Some(1) && told.contains(&in_use), "{command:?}: {told}");
    }
    // This one changes nothing.
    let (status, told) = site.log_command(&["dump", "--frames"]);
    assert!(status == Some(0) && told.contains("test-0 at offset 0 in segment 0, 20 bytes of messages"), "{told}");

    client.put("test", 0, b"").await;
    assert_eq!(read_log(&mut client, ("test", 0)).await.len(), 2);
    broker.stop();
}
