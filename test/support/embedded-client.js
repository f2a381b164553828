// A process that joins an embedded server when told to, reports what happened, and waits to be told to leave or killed.
// Plain JavaScript, and told where the compiled module is: it also runs as other users and from other checkouts.
const [moduleUrl, options, umask] = process.argv.slice(2);
if (umask) process.umask(Number(umask));
const { joinEmbeddedServer } = await import(moduleUrl);

process.on("disconnect", () => process.exit());
process.send({ kind: "here" });
await new Promise((resolve) => process.once("message", resolve));
try {
  const server = await joinEmbeddedServer({
    ...JSON.parse(options),
    onProgress: (message) => process.send({ kind: "progress", message }),
  });
  process.once("message", async () => {
    await server.close();
    process.disconnect();
  });
  const { url, version, dataFolder, adopted } = server;
  process.send({ kind: "joined", url, version, dataFolder, adopted });
} catch (error) {
  process.send({ kind: "failed", code: error.code, message: error.message });
}
