// Produces with kafkajs and reads the offsets back; kafkajs has no consumer without a group.
// node kafkajs_round_trip.js <bootstrap> <topic>; prints one JSON object.
const { CompressionTypes, Kafka, logLevel } = require("kafkajs");

async function main([bootstrap, topic]) {
  const kafka = new Kafka({ brokers: [bootstrap], clientId: "interop", logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  const created = await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true });

  const acknowledged = [];
  for (const [idempotent, compression] of [
    [false, CompressionTypes.None],
    [false, CompressionTypes.GZIP],
    [true, CompressionTypes.None],
  ]) {
    const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 });
    await producer.connect();
    const messages = [...Array(100).keys()].map((n) => ({
      key: `k${n}`, value: `v${n}`, partition: n % 2, headers: { n: `${n}` },
    }));
    acknowledged.push(await producer.send({ topic, acks: -1, compression, messages }));
    await producer.disconnect();
  }
  const offsets = await admin.fetchTopicOffsets(topic);
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  await admin.disconnect();
  console.log(JSON.stringify({ created, acknowledged, offsets, partitions: metadata.topics[0].partitions.length }));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
