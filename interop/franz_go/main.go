// A round trip of franz-go (its own protocol code, in Go): a topic, each codec, a cooperative group with a rebalance,
// its admin client. franz_go <bootstrap> <topic> <group>; prints one JSON object.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions     = 4
	recordsOfCodec = 100
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func until(what string, condition func() bool) {
	for deadline := time.Now().Add(45 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			check(fmt.Errorf("did not happen: %s", what))
		}
	}
}

// member consumes as one of the group until it leaves.
type member struct {
	client  *kgo.Client
	ended   chan struct{}
	lock    sync.Mutex
	owned   map[int32]bool
	taken   int
	records []string
}

func join(bootstrap, topic, group string, options ...kgo.Opt) *member {
	joined := &member{owned: map[int32]bool{}, ended: make(chan struct{})}
	give := func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
		joined.lock.Lock()
		defer joined.lock.Unlock()
		for _, partition := range given[topic] {
			joined.owned[partition] = true
		}
	}
	take := func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
		joined.lock.Lock()
		defer joined.lock.Unlock()
		for _, partition := range taken[topic] {
			delete(joined.owned, partition)
			joined.taken++
		}
	}
	client, err := kgo.NewClient(append(options,
		kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.OnPartitionsAssigned(give), kgo.OnPartitionsRevoked(take), kgo.OnPartitionsLost(take),
		kgo.AutoCommitInterval(200*time.Millisecond))...)
	check(err)
	joined.client = client
	go func() {
		defer close(joined.ended)
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) {
				joined.lock.Lock()
				defer joined.lock.Unlock()
				joined.records = append(joined.records, fmt.Sprintf("%d/%d", record.Partition, record.Offset))
			})
		}
	}()
	return joined
}

func (each *member) share() int {
	each.lock.Lock()
	defer each.lock.Unlock()
	return len(each.owned)
}

func (each *member) read() int {
	each.lock.Lock()
	defer each.lock.Unlock()
	return len(each.records)
}

func (each *member) leave() {
	check(each.client.CommitUncommittedOffsets(context.Background()))
	each.client.Close()
	<-each.ended
}

func produce(bootstrap, topic string, codec kgo.CompressionCodec) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(codec),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(err)
	defer client.Close()
	records := []*kgo.Record{}
	for number := range recordsOfCodec {
		records = append(records, &kgo.Record{
			Topic: topic, Partition: int32(number % partitions), Value: fmt.Appendf(nil, "value %d", number),
		})
	}
	check(client.ProduceSync(context.Background(), records...).FirstErr())
}

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	check(err)
	defer client.Close()
	admin := kadm.NewClient(client)
	seen := map[string]any{}

	retention := "60000"
	_, err = admin.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": &retention}, topic)
	check(err)
	grown, err := admin.UpdatePartitions(ctx, partitions, topic)
	check(err)
	check(grown.Error())
	changed := "90000"
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &changed}}, topic)
	check(err)
	check(altered[0].Err)
	// Kafka's brokers hear of a change a little later than it is acknowledged.
	until("the setting is changed", func() bool {
		described, err := admin.DescribeTopicConfigs(ctx, topic)
		check(err)
		for _, config := range described[0].Configs {
			if config.Key == "retention.ms" {
				seen["retention"] = config.MaybeValue()
			}
		}
		return seen["retention"] == changed
	})

	stays := join(bootstrap, topic, group, kgo.InstanceID("stays"))
	until("the first has all", func() bool { return stays.share() == partitions })
	leaves := join(bootstrap, topic, group)
	until("they share", func() bool { return stays.share() == 2 && leaves.share() == 2 })
	seen["taken"] = stays.taken
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for _, codec := range codecs {
		produce(bootstrap, topic, codec)
	}
	total := recordsOfCodec * len(codecs)
	until("both have read", func() bool { return stays.read()+leaves.read() == total })
	seen["read"] = []int{stays.read(), leaves.read()}
	groups, err := admin.DescribeGroups(ctx, group)
	check(err)
	seen["state"], seen["protocol"], seen["members"] = groups[group].State, groups[group].Protocol, len(groups[group].Members)
	leaves.leave()
	until("the first has all again", func() bool { return stays.share() == partitions })
	produce(bootstrap, topic, kgo.Lz4Compression())
	total += recordsOfCodec
	until("the first has read the rest", func() bool { return stays.read()+leaves.read() >= total })
	stays.leave()
	unique := map[string]bool{}
	for _, record := range append(stays.records, leaves.records...) {
		unique[record] = true
	}
	seen["records"], seen["unique"] = stays.read()+leaves.read(), len(unique)

	// A static member that closes is still a member: it is removed by its instance.
	left, err := admin.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("stays"))
	check(err)
	check(left.Error())
	lags, err := admin.Lag(ctx, group)
	check(err)
	seen["lag"] = lags[group].Lag.Total()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 1, 7, -1)
	check(admin.CommitAllOffsets(ctx, group, offsets))
	fetched, err := admin.FetchOffsets(ctx, group)
	check(err)
	committed := map[string]int64{}
	fetched.Each(func(offset kadm.OffsetResponse) { committed[fmt.Sprint(offset.Partition)] = offset.At })
	seen["committed"] = committed
	deleted, err := admin.DeleteGroups(ctx, group)
	check(err)
	check(deleted.Error())
	topics, err := admin.DeleteTopics(ctx, topic)
	check(err)
	check(topics.Error())
	check(json.NewEncoder(os.Stdout).Encode(seen))
}
