declare module 'kafkajs/src/network/requestQueue/index.js' {
  const RequestQueue: { prototype: unknown };
  export default RequestQueue;
}
