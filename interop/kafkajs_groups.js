// A group of kafkajs with a rebalance, then its admin client on topics, settings, groups and offsets.
// node kafkajs_groups.js <bootstrap> <topic> <group>; prints one JSON object.
const { ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");

const PARTITIONS = 4;
const until = async (what, condition) => {
  const deadline = Date.now() + 45000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

async function startMember(kafka, topic, groupId) {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 200, rebalanceTimeout: 10000, maxWaitTimeInMs: 100 });
  const member = { consumer, owned: [], generations: 0, records: [] };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.generations += 1;
    member.owned = payload.memberAssignment[topic] ?? [];
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ partition, message }) => member.records.push(`${partition}/${message.offset}`),
  });
  return member;
}

async function main([bootstrap, topic, groupId]) {
  const kafka = new Kafka({ brokers: [bootstrap], clientId: "interop", logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries: [{ name: "retention.ms", value: "60000" }] }] });
  await admin.createPartitions({ topicPartitions: [{ topic, count: PARTITIONS }] });

  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  const send = () => producer.send({
    topic,
    messages: [...Array(100).keys()].map((n) => ({ value: `v${n}`, partition: n % PARTITIONS })),
  });
  const read = (...members) => members.reduce((sum, each) => sum + each.records.length, 0);

  const stays = await startMember(kafka, topic, groupId);
  await until("the first has all", () => stays.owned.length === PARTITIONS);
  const leaves = await startMember(kafka, topic, groupId);
  await until("they share", () => stays.owned.length === 2 && leaves.owned.length === 2);
  await send();
  await until("both have read", () => read(stays, leaves) === 100);
  const shared = { stays: stays.owned, leaves: leaves.owned, read: [read(stays), read(leaves)] };
  const described = (await admin.describeGroups([groupId])).groups[0];
  await leaves.consumer.disconnect();
  await until("the first has all again", () => stays.owned.length === PARTITIONS);
  await send();
  await until("the first has read the rest", () => read(stays, leaves) === 200);
  await stays.consumer.disconnect();
  await producer.disconnect();

  const sorted = (offsets) => offsets[0].partitions.sort((a, b) => a.partition - b.partition).map((each) => each.offset);
  const committed = sorted(await admin.fetchOffsets({ groupId, topics: [topic] }));
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 1, offset: "7" }] });
  const set = sorted(await admin.fetchOffsets({ groupId, topics: [topic] }));
  await admin.resetOffsets({ groupId, topic, earliest: true });
  const reset = sorted(await admin.fetchOffsets({ groupId, topics: [topic], resolveOffsets: true }));

  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const setting = async () =>
    (await admin.describeConfigs({ includeSynonyms: false, resources: [{ ...resource, configNames: ["retention.ms"] }] }))
      .resources[0].configEntries[0].configValue;
  const retention = [await setting()];
  await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: "90000" }] }] });
  retention.push(await setting());

  const listed = async () => (await admin.listGroups()).groups.some((each) => each.groupId === groupId);
  const wasListed = await listed();
  await admin.deleteGroups([groupId]);
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "10" }] });
  const lows = (await admin.fetchTopicOffsets(topic)).sort((a, b) => a.partition - b.partition).map((each) => each.low);
  await admin.deleteTopics({ topics: [topic] });
  const isTopicThere = (await admin.listTopics()).includes(topic);
  const cluster = await admin.describeCluster();
  const isGroupThere = await listed();
  await admin.disconnect();
  console.log(JSON.stringify({
    shared, state: described.state, members: described.members.length, protocol: described.protocol,
    unique: new Set([...stays.records, ...leaves.records]).size,
    committed, set, reset, retention, wasListed, isGroupThere, lows, isTopicThere, brokers: cluster.brokers.length,
  }));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
