// redlock in the comparison, with its defaults: 10 tries, 200 to 300 ms apart. Tasks stand for
// threads. See ../contender.h. What is shared is a file here, as Node maps none.
"use strict";

const fs = require("fs");
const Redis = require("ioredis");
const Redlock = require("redlock");

const mostSamples = 4000;
const options = {};
const urls = [];
for (const word of process.argv.slice(2)) {
  const equals = word.indexOf("=");
  if (word.startsWith("--") && equals > 0) options[word.slice(2, equals)] = word.slice(equals + 1);
  else urls.push(word);
}
const number = (name, fallback) => Number(options[name] ?? fallback);
const me = number("index", 0) + 1;
const lease = number("lease-ms", 30000);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const nanos = () => process.hrtime.bigint(); // CLOCK_MONOTONIC

const shared = fs.openSync(options.shared, "r+");
const read = (at, size) => {
  const bytes = Buffer.alloc(size);
  fs.readSync(shared, bytes, 0, size, at);
  return bytes;
};
const setInside = (inside) => fs.writeSync(shared, Buffer.from([inside, 0, 0, 0]), 0, 4, 0);
const stamp = () => {
  const bytes = Buffer.alloc(12);
  bytes.writeBigInt64LE(nanos(), 0);
  bytes.writeInt32LE(me, 8);
  fs.writeSync(shared, bytes, 0, 12, 8);
};

const clients = urls.map((url) => new Redis(url));
const redlock = new Redlock(clients);
redlock.on("clientError", () => {}); // a refused try is one

async function take(name, tally) {
  try {
    return await redlock.lock(name, lease);
  } catch (error) {
    ++tally.failed;
    return null;
  }
}

async function giveBack(lock, tally) {
  try {
    await lock.unlock();
  } catch (error) {
    ++tally.failed;
  }
}

async function pairs(name, end, tally) {
  let place = 0;
  for (let begun = nanos(); begun < end; ) {
    const lock = await take(name, tally);
    if (lock) {
      ++tally.count;
      await giveBack(lock, tally);
    }
    const now = nanos();
    tally.samples[place] = Number(now - begun) / 1e3;
    place = (place + 1) % mostSamples;
    begun = now;
  }
}

async function contend(name, end, tally) {
  const section = number("section-us", 0) / 1e3;
  const turns = number("turns", 0) !== 0;
  for (let running = true; running; ) {
    const asked = nanos();
    let lock = await take(name, tally);
    while (!lock && nanos() < end) lock = await take(name, tally);
    if (!lock) break;
    const now = nanos();
    const by = read(16, 4).readInt32LE(0);
    if (by !== 0 && by !== me && tally.samples.length < mostSamples) {
      tally.samples.push(Number(nanos() - read(8, 8).readBigInt64LE(0)) / 1e3);
    }
    running = now < end;
    tally.longest = Math.max(tally.longest, Number((running ? now : end) - asked) / 1e6);
    if (running) ++tally.count;
    if (read(0, 4).readInt32LE(0) !== 0) ++tally.overlaps;
    setInside(1);
    if (section > 0) await sleep(section);
    setInside(0);
    stamp();
    await giveBack(lock, tally);
    while (turns && read(0, 4).readInt32LE(0) === 0 && nanos() < end) await sleep(1);
  }
}

async function main() {
  const newTally = () => ({ count: 0, failed: 0, overlaps: 0, longest: 0, samples: [] });
  const own = options.work === "pair";
  const threads = [...Array(number("threads", 1)).keys()];
  const owned = threads.map((i) => `own:${i}:${me}`);
  const names = own ? owned : threads.map(() => "contended");
  const idle = newTally();
  for (const client of clients) await client.ping();
  if (options.work === "hold") {
    const count = number("locks", 1);
    for (let i = 0; i < count; ++i) {
      while (!(await take(count === 1 ? "contended" : `held:${i}`, idle)));
    }
  } else {
    // What the first use costs is no part of it.
    for (const name of owned) await giveBack(await take(name, idle), idle);
  }
  console.log("ready");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  const before = process.cpuUsage();
  const end = nanos() + BigInt(Math.round(number("seconds", 1) * 1e9));
  const tallies = names.map(newTally);
  if (options.work !== "hold") {
    const body = own ? pairs : contend;
    await Promise.all(names.map((name, i) => body(name, end, tallies[i])));
  }
  const cpu = process.cpuUsage(before);
  const each = Math.max(1, Math.floor(mostSamples / names.length));
  const sum = (field) => tallies.reduce((total, tally) => total + tally[field], 0);
  const line = JSON.stringify({
    counts: tallies.map((tally) => tally.count),
    failed: sum("failed"),
    overlaps: sum("overlaps"),
    longest_wait_ms: Math.max(...tallies.map((tally) => tally.longest)),
    cpu_s: (cpu.user + cpu.system) / 1e6,
    samples_us: tallies.flatMap((tally) => tally.samples.slice(0, each)),
  });
  process.stdout.write(line + "\n", () => process.exit(0));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
