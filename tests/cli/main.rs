//! The client from outside: the real binary, against a driver that does what a test tells it and against the real one.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod architecture;
mod bench;
mod blameless;
mod chart;
mod closed_output;
mod connection;
mod contexts;
mod csc;
mod doctor;
mod documents;
mod flex;
mod golden;
mod image;
mod lifecycle;
mod misbehaving;
mod mock;
mod new_driver;
mod outputs;
mod packages;
mod pages;
mod proxy;
mod real_driver;
mod reference_driver;
mod requests;
mod sanity;
mod sanity_commands;
mod sanity_defects;
mod secrets;
mod serve;
mod shell_completion;
mod shell_ends;
mod shell_eyes;
mod shell_scripts;
mod shell_terminal;
mod standing_still;
mod surface;
mod unread;
mod usage;
mod wait;
mod watch;
