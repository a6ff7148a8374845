//! Sends one letter to an endpoint, then receives those that are there: `letter SOCKET ENDPOINT TEXT`.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use dhow_client::{Address, Client, Registration, SendHead};

const LIFETIME: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, endpoint, text] = words.as_slice() else {
        return Err("usage: letter SOCKET ENDPOINT TEXT".into());
    };
    let node: Address = socket.parse()?;
    let registration = Registration::new(endpoint.parse()?);

    let mut sender = Client::connect(&node)?.sender(&registration)?;
    let head = SendHead::to(endpoint.parse()?).with_lifetime(LIFETIME);
    sender.send(&head, text.as_bytes(), u64::try_from(text.len())?)?;
    // The answer comes once the bundle is on the node's disk.
    let answer = sender.next_answer(Some(PATIENCE))?.ok_or("no answer")?;
    let created = answer.outcome?;
    println!("sent from {}", created.source);

    let mut receiver = Client::connect(&node)?.receiver(&registration)?;
    let mut delivery = receiver
        .next_delivery(Some(PATIENCE))?
        .ok_or("nothing came")?;
    let mut arrived = String::new();
    delivery.read_to_string(&mut arrived)?;
    println!("received: {arrived}");
    // The node removes the bundle once the confirmation is durable there.
    delivery.confirm()?;
    receiver.finish()?;
    Ok(())
}
