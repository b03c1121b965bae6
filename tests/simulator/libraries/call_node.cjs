// Calls Flutterwave's Node library: reads each call, and writes its result, as a line of JSON.
// A call is the name of a method, such as `Transaction.verify`, and the method's argument.

const dns = require("node:dns");
const { createInterface } = require("node:readline");

// The library also reports each call to Flutterwave's own hosts. Here, no host name is found, so no
// report leaves this machine. The API's URL, the library's third argument, contains an IP address.
dns.lookup = (host, options, callback) => callback(new Error(`no test calls ${host}`));

const Flutterwave = require("flutterwave-node-v3");

async function main(url) {
  const library = new Flutterwave("FLWPUBK-simulated-X", "FLWSECK-simulated-X", url);
  for await (const line of createInterface({ input: process.stdin })) {
    const [method, argument] = JSON.parse(line);
    const [group, name] = method.split(".");
    const result = await library[group][name](argument).catch((error) => ({ error: `${error}` }));
    console.log(JSON.stringify(result));
  }
}

main(process.argv[2]);
