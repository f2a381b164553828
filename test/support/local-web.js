/** For an example that fetches something: whatever it asks for is asked of the test. */
const { fetch } = globalThis;

globalThis.fetch = (_url, options) => fetch(process.env.EVERBEAT_TEST_WEB, options);
