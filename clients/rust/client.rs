//! Tunes a Rust program with `baco-like serve --json`, without crates:
//!
//!     rustc -O client.rs && ./client baco-like serve --json ../space.json
//!
//! One message is one line over the pipes of the server.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

const LOST: &str = "the server has ended, or does not answer";

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns the length of the JSON value at the start.
fn value_length(text: &str) -> usize {
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b',' | b':' | b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the value of a key of an object.
fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = object.strip_prefix('{')?;
    while rest.starts_with('"') {
        let (name, value) = rest.split_at(value_length(rest));
        let length = value_length(&value[1..]);
        if name.trim_matches('"') == key {
            return Some(value[1..=length].trim());
        }
        rest = value[1 + length..].trim_start_matches([',', ' ']);
    }
    None
}

struct Server {
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    prefix: u64, // of the ids: random, so that no other program and no later run has the same
    number: u64,
}

impl Server {
    fn start(words: &[String]) -> Outcome<Server> {
        let (program, rest) = words.split_first().ok_or("name the command of the server")?;
        let mut process = Command::new(program).args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (process.stdin.take().ok_or("no pipe")?, process.stdout.take().ok_or("no pipe")?);
        let (sender, answers) = channel();
        // A thread reads, so that the program can stop waiting for an answer.
        std::thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|l| sender.send(l)));
        Ok(Server { process, input, answers, prefix: RandomState::new().build_hasher().finish(), number: 0 })
    }

    /// Calls a method. Returns its result, or nothing if the run has ended.
    fn call(&mut self, method: &str, params: &str) -> Outcome<Option<String>> {
        self.number += 1;
        let id = format!("{:016x}-{}", self.prefix, self.number);
        writeln!(self.input, r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#).map_err(|_| LOST)?;
        let answer = self.answers.recv_timeout(Duration::from_secs(300)).map_err(|_| LOST)?;
        match member(&answer, "error") {
            Some(error) if member(error, "code") == Some("-32004") => Ok(None),
            Some(error) => Err(error.into()),
            None => Ok(Some(member(&answer, "result").ok_or(answer.clone())?.to_string())),
        }
    }
}

/// Stands for: compile with these values, run, take the time.
fn measure(config: &str) -> Outcome<f64> {
    let text = |key| member(config, key).ok_or("a parameter is missing");
    let (tile, share): (f64, f64) = (text("tile")?.parse()?, text("share")?.parse()?);
    let first_loop: f64 = text("loops")?[1..2].parse()?;
    let (difference, rest) = ((tile - 16.0) / 16.0, share - 0.3);
    let mode = if text("mode")? == "\"fast\"" { 0.0 } else { 0.5 };
    Ok(1.0 + difference * difference + rest * rest + 0.1 * first_loop + mode)
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut server = Server::start(&words)?;
    server.call("hello", r#"{"version":1}"#)?;
    while let Some(result) = server.call("suggest", "{}")? {
        let trial = &member(&result, "trials").ok_or("no trials")?[1..];
        let (id, config) = (member(trial, "id").ok_or("no id")?, member(trial, "config").ok_or("no config")?);
        println!("{config}");
        let value = measure(config)?;
        server.call("observe", &format!(r#"{{"trial":{id},"values":[{value},{}]}}"#, value + 0.25))?;
    }
    drop(server.input); // the server ends with its input
    server.process.wait()?;
    Ok(())
}
