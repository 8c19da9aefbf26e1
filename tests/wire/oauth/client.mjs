// The TypeScript SDK's client with its OAuth provider: prints `open URL`, reads where the browser was sent on to,
// calls, renews, calls again. Run as `node client.mjs ADDRESS`, beside node_modules.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { auth } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const address = new URL(process.argv[2]);
const kept = {};
const provider = {
  get redirectUrl() { return "http://localhost:3031/callback"; },
  get clientMetadata() { return { client_name: "TypeScript", redirect_uris: ["http://localhost:3031/callback"] }; },
  state: () => "state of the client",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  redirectToAuthorization: (url) => { console.log(`open ${url}`); },
};

const connected = async () => {
  const client = new Client({ name: "script", version: "1" });
  const transport = new StreamableHTTPClientTransport(address, { authProvider: provider });
  try {
    await client.connect(transport);
  } catch (error) {
    if (error.constructor.name !== "UnauthorizedError") throw error;
    const lines = createInterface({ input: process.stdin });
    const { value } = await lines[Symbol.asyncIterator]().next();
    lines.close();
    const back = new URL(value).searchParams;
    if (back.get("state") !== "state of the client") throw new Error("another state came back");
    await transport.finishAuth(back.get("code"));
    return connected();
  }
  return client;
};

const text = (result) => result.content.map((block) => block.text).join("\n");
const client = await connected();
const whoami = text(await client.callTool({ name: "rift_whoami", arguments: {} }));
await client.callTool({ name: "rift_task_new", arguments: { name: "by the SDK" } });
const before = kept.tokens.access_token;
const outcome = await auth(provider, { serverUrl: address });
const tasks = text(await client.callTool({ name: "rift_task_ls", arguments: {} }));
const renewed = outcome === "AUTHORIZED" && kept.tokens.access_token !== before;
console.log(JSON.stringify({ whoami, tasks, renewed }));
await client.close();
process.exit(0);
