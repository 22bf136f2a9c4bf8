/* A raw load generator: one thread, epoll, requests packed beforehand, so that the client is not what bounds a case.
 *
 * Knows Produce v9 and Fetch v12, one topic and one partition in each request, and beyond that any small answer whose
 * only error code lies at a known place (OffsetCommit, Heartbeat). It patches the correlation id, the partition and the
 * offset of requests that bench/requests.py has packed; it counts every error code it is answered with. The records of
 * a fetch are dropped inside the kernel (MSG_TRUNC).
 *
 * loader key=value ...   (all of: see `settings`); prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 512, INFLIGHT_MAX = 64, CONNECTIONS_MAX = 16384, RECEIVE_BYTES = 1 << 16, EVENTS_MAX = 256 };

struct settings {
    int port;
    char request_file[1024]; /* whole request frames, their sizes included, all of one length */
    int requests;            /* how many; the connections take turns with them (each its own, if there are as many) */
    int head_bytes;          /* the part of a frame that is patched for each request; the rest is shared */
    int partition_at;        /* where its partition index is; 0 if it is not to be patched */
    int offset_at;           /* where its offset is; 0 if it has none */
    int error_at;            /* where the error code of an answer is; 0 for Produce and Fetch */
    int topic_bytes;         /* length of the topic's name */
    int partitions;
    int connections;
    int inflight;
    double seconds;        /* how long to measure, at most */
    double warmup_seconds; /* before that */
    double max_bytes;      /* stop measuring after so many bytes; 0 = no limit */
    double rate;           /* requests a second over all connections; 0 = as fast as it goes */
    int64_t payload_bytes; /* Produce: record bytes in a request. Fetch: record bytes expected in an answer */
    int64_t offset_step;   /* Fetch: records in an answer. Otherwise: how far the offset goes with each request */
    int64_t offset_end;    /* start over from 0 here */
};

struct slot { /* a request on its way out */
    unsigned char head[HEAD_MAX];
    uint64_t queued_ns;
};

struct connection {
    int fd;
    int partition;
    int request; /* which one is next */
    uint32_t watched;
    int32_t next_correlation_id;
    int32_t next_answered_id;
    int queued;              /* requests not wholly sent */
    int outstanding;         /* requests sent or queued, not answered */
    size_t sent_of_first;    /* bytes sent of the first queued request */
    int first_queued;        /* its slot */
    int first_unanswered;    /* slot of the oldest unanswered request */
    int64_t fetch_offset;
    unsigned char answer[HEAD_MAX];
    size_t answer_filled;
    int64_t skip;            /* bytes of the current answer to drop */
    struct slot slots[INFLIGHT_MAX];
};

static struct settings settings;
static unsigned char *request;
static size_t request_bytes; /* of one frame */
static struct connection *connections;
static int epoll_fd;
static uint64_t start_ns, measure_from_ns, measure_until_ns, last_answer_ns;
static int measuring;
static uint64_t answers, answer_payload_bytes, errors, short_answers, queued_total;
static int first_error_code;
static uint32_t *latencies; /* tenths of a microsecond */
static size_t latencies_count, latencies_room;

static void die(const char *what) {
    fprintf(stderr, "loader: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *what) {
    fprintf(stderr, "loader: %s\n", what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int32_t read_i32(const unsigned char *at) { uint32_t v; memcpy(&v, at, 4); return (int32_t)be32toh(v); }
static int16_t read_i16(const unsigned char *at) { uint16_t v; memcpy(&v, at, 2); return (int16_t)be16toh(v); }
static void write_i32(unsigned char *at, int32_t value) { uint32_t v = htobe32((uint32_t)value); memcpy(at, &v, 4); }
static void write_i64(unsigned char *at, int64_t value) { uint64_t v = htobe64((uint64_t)value); memcpy(at, &v, 8); }

static void read_settings(int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        char *value = strchr(arguments[i], '=');
        if (!value) refuse("arguments are key=value");
        *value++ = 0;
        const char *key = arguments[i];
#define INTEGER(name) else if (!strcmp(key, #name)) settings.name = atoll(value)
#define NUMBER(name) else if (!strcmp(key, #name)) settings.name = atof(value)
        if (!strcmp(key, "request_file")) snprintf(settings.request_file, sizeof settings.request_file, "%s", value);
        INTEGER(port); INTEGER(requests); INTEGER(error_at); INTEGER(head_bytes); INTEGER(partition_at); INTEGER(offset_at); INTEGER(topic_bytes);
        INTEGER(partitions); INTEGER(connections); INTEGER(inflight); INTEGER(payload_bytes); INTEGER(offset_step);
        INTEGER(offset_end); NUMBER(seconds); NUMBER(warmup_seconds); NUMBER(max_bytes); NUMBER(rate);
        else refuse(key);
    }
    if (settings.requests < 1) settings.requests = 1;
    if (settings.error_at > HEAD_MAX - 2) refuse("error_at out of range");
    if (settings.inflight < 1 || settings.inflight > INFLIGHT_MAX) refuse("inflight out of range");
    if (settings.connections < 1 || settings.connections > CONNECTIONS_MAX) refuse("connections out of range");
    if (settings.head_bytes < 12 || settings.head_bytes > HEAD_MAX) refuse("head_bytes out of range");
}

static void read_request(void) {
    int fd = open(settings.request_file, O_RDONLY);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0) die(settings.request_file);
    size_t file_bytes = (size_t)info.st_size;
    request = malloc(file_bytes);
    for (size_t filled = 0; filled < file_bytes;) {
        ssize_t got = read(fd, request + filled, file_bytes - filled);
        if (got <= 0) die("read of the request file");
        filled += (size_t)got;
    }
    close(fd);
    request_bytes = file_bytes / (size_t)settings.requests;
    if (request_bytes < (size_t)settings.head_bytes) refuse("request is shorter than its head");
    if (settings.requests > 1 && request_bytes != (size_t)settings.head_bytes) refuse("several requests are all head");
}

static void watch(struct connection *c, uint32_t events) {
    if (c->watched == events) return;
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(epoll_fd, c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &event) < 0) die("epoll_ctl");
    c->watched = events;
}

static void queue_request(struct connection *c, uint64_t now) {
    struct slot *slot = &c->slots[(c->first_queued + c->queued) % settings.inflight];
    memcpy(slot->head, request + (size_t)c->request * request_bytes, (size_t)settings.head_bytes);
    c->request = (c->request + settings.connections) % settings.requests;
    write_i32(slot->head + 8, c->next_correlation_id++);
    if (settings.partition_at) write_i32(slot->head + settings.partition_at, c->partition);
    if (settings.offset_at) {
        write_i64(slot->head + settings.offset_at, c->fetch_offset);
        c->fetch_offset += settings.offset_step;
        if (c->fetch_offset + settings.offset_step > settings.offset_end) c->fetch_offset = 0;
    }
    slot->queued_ns = now;
    c->queued++;
    c->outstanding++;
    queued_total++;
}

static void send_queued(struct connection *c) {
    size_t head_bytes = (size_t)settings.head_bytes;
    while (c->queued) {
        struct iovec parts[2 * INFLIGHT_MAX];
        int count = 0;
        size_t sent_before = c->sent_of_first;
        for (int i = 0; i < c->queued; i++) {
            struct slot *slot = &c->slots[(c->first_queued + i) % settings.inflight];
            if (sent_before < head_bytes)
                parts[count++] = (struct iovec){slot->head + sent_before, head_bytes - sent_before};
            size_t tail_from = sent_before > head_bytes ? sent_before : head_bytes;
            if (tail_from < request_bytes)
                parts[count++] = (struct iovec){request + tail_from, request_bytes - tail_from};
            sent_before = 0;
        }
        ssize_t sent = writev(c->fd, parts, count);
        if (sent < 0) {
            if (errno != EAGAIN) die("send (the broker closed the connection?)");
            watch(c, EPOLLIN | EPOLLOUT);
            return;
        }
        c->sent_of_first += (size_t)sent;
        while (c->queued && c->sent_of_first >= request_bytes) {
            c->sent_of_first -= request_bytes;
            c->first_queued = (c->first_queued + 1) % settings.inflight;
            c->queued--;
        }
    }
    watch(c, EPOLLIN);
}

static void refill(struct connection *c, uint64_t now) {
    if (settings.rate > 0) return; /* the pacer gives out requests */
    while (c->outstanding < settings.inflight) queue_request(c, now);
    send_queued(c);
}

static void pace(uint64_t now) {
    static int next;
    double allowed = settings.rate * (double)(now - start_ns) / 1e9;
    for (int tried = 0; tried < settings.connections && (double)queued_total < allowed; tried++) {
        struct connection *c = &connections[next];
        next = (next + 1) % settings.connections;
        int added = 0;
        while (c->outstanding < settings.inflight && (double)queued_total < allowed) queue_request(c, now), added = 1;
        if (added) send_queued(c);
    }
}

static void count_error(int code) {
    errors++;
    if (!first_error_code) first_error_code = code;
}

static int varint_bytes(uint64_t value) {
    int count = 1;
    while (value >>= 7) count++;
    return count;
}

/* size(4) correlation(4) tags(1) topics(1) name(1+n) partitions(1) index(4) error(2) ... */
static int64_t produce_answer(const unsigned char *a, size_t filled, int64_t frame) {
    size_t error_at = 4 + 4 + 1 + 1 + 1 + (size_t)settings.topic_bytes + 1 + 4;
    if (frame < (int64_t)error_at - 2 || filled < error_at + 2 || a[9] != 2) { count_error(-2); return 0; }
    int code = read_i16(a + error_at);
    if (code) { count_error(code); return 0; }
    return settings.payload_bytes;
}

/* size(4) correlation(4) tags(1) throttle(4) error(2) session(4) topics(1) name(1+n) partitions(1)
 * index(4) error(2) high watermark(8) last stable(8) log start(8) aborted(1) preferred replica(4) records(varint+n)
 * tags(1) tags(1) tags(1) */
static int64_t fetch_answer(const unsigned char *a, size_t filled, int64_t frame) {
    if (filled < 20) { count_error(-2); return 0; }
    int code = read_i16(a + 13);
    if (code) { count_error(code); return 0; }
    size_t error_at = 19 + 1 + 1 + (size_t)settings.topic_bytes + 1 + 4;
    if (filled < error_at + 2 || a[19] != 2) { count_error(-2); return 0; }
    code = read_i16(a + error_at);
    if (code) { count_error(code); return 0; }
    int64_t rest = frame - ((int64_t)error_at - 4 + 2 + 24 + 1 + 4 + 3);
    int64_t records = 0;
    for (int width = 1; width <= 5; width++)
        if (rest >= width && varint_bytes((uint64_t)(rest - width + 1)) == width) records = rest - width;
    if (records < settings.payload_bytes) short_answers++;
    return records;
}

static int64_t plain_answer(const unsigned char *a, size_t filled) {
    if (filled < (size_t)settings.error_at + 2) { count_error(-2); return 0; }
    int code = read_i16(a + settings.error_at);
    if (code) { count_error(code); return 0; }
    return settings.payload_bytes;
}

static void finish_answer(struct connection *c, int64_t frame, uint64_t now) {
    if (read_i32(c->answer + 4) != c->next_answered_id++) refuse("answers came out of order");
    int64_t payload = settings.error_at    ? plain_answer(c->answer, c->answer_filled)
                      : settings.offset_at ? fetch_answer(c->answer, c->answer_filled, frame)
                                           : produce_answer(c->answer, c->answer_filled, frame);
    struct slot *slot = &c->slots[c->first_unanswered];
    c->first_unanswered = (c->first_unanswered + 1) % settings.inflight;
    c->outstanding--;
    if (!measuring) return;
    answers++;
    answer_payload_bytes += (uint64_t)payload;
    last_answer_ns = now;
    if (latencies_count == latencies_room) {
        latencies_room = latencies_room ? latencies_room * 2 : 1 << 16;
        latencies = realloc(latencies, latencies_room * sizeof *latencies);
        if (!latencies) die("latencies");
    }
    latencies[latencies_count++] = (uint32_t)((now - slot->queued_ns) / 100);
}

/* Takes bytes of answers; the tail of a long answer is left to `skip`. */
static void take(struct connection *c, const unsigned char *data, size_t length, uint64_t now) {
    while (length) {
        if (c->skip) {
            size_t dropped = (int64_t)length < c->skip ? length : (size_t)c->skip;
            c->skip -= (int64_t)dropped;
            data += dropped;
            length -= dropped;
            if (!c->skip) {
                finish_answer(c, read_i32(c->answer), now);
                c->answer_filled = 0;
            }
            continue;
        }
        size_t want = 4;
        if (c->answer_filled >= 4) {
            int64_t whole = 4 + (int64_t)read_i32(c->answer);
            if (whole < 8 || whole > (1 << 30)) refuse("an answer has an impossible size");
            want = whole < HEAD_MAX ? (size_t)whole : HEAD_MAX;
        }
        size_t copied = want - c->answer_filled < length ? want - c->answer_filled : length;
        memcpy(c->answer + c->answer_filled, data, copied);
        c->answer_filled += copied;
        data += copied;
        length -= copied;
        if (c->answer_filled < want || want == 4) continue;
        c->skip = 4 + (int64_t)read_i32(c->answer) - (int64_t)want;
        if (!c->skip) {
            finish_answer(c, read_i32(c->answer), now);
            c->answer_filled = 0;
        }
    }
}

static void receive(struct connection *c) {
    static unsigned char buffer[RECEIVE_BYTES];
    for (int turn = 0; turn < 16; turn++) {
        ssize_t got;
        if (c->skip > 1) { /* all but the last byte, which ends the answer through `take` */
            got = recv(c->fd, NULL, (size_t)(c->skip - 1), MSG_TRUNC | MSG_DONTWAIT);
            if (got > 0) { c->skip -= got; continue; }
        } else {
            size_t room = settings.offset_at && !settings.error_at ? 256 : sizeof buffer;
            got = recv(c->fd, buffer, room, MSG_DONTWAIT);
            if (got > 0) {
                uint64_t now = now_ns();
                take(c, buffer, (size_t)got, now);
                refill(c, now);
                if ((size_t)got < room && !c->skip) return;
                continue;
            }
        }
        if (got == 0) refuse("the broker closed a connection");
        if (errno == EAGAIN) return;
        die("recv");
    }
}

static void open_connections(void) {
    connections = calloc((size_t)settings.connections, sizeof *connections);
    if (!connections) die("connections");
    for (int i = 0; i < settings.connections; i++) {
        struct connection *c = &connections[i];
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)settings.port)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0) die("connect");
        int on = 1;
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        c->partition = i % settings.partitions;
        c->request = i % settings.requests;
        watch(c, EPOLLIN);
    }
}

/* Wait for an answer, or with a rate for the time of the next request: evenly spaced, not in bursts. */
static int wait_for_events(struct epoll_event *events) {
    if (settings.rate <= 0) return epoll_wait(epoll_fd, events, EVENTS_MAX, 100);
    double left_ns = (double)start_ns + ((double)queued_total + 1) / settings.rate * 1e9 - (double)now_ns();
    if (left_ns > 1e6) left_ns = 1e6;
    if (left_ns > 0) {
        struct timespec left = {.tv_nsec = (long)left_ns};
        struct pollfd ready = {.fd = epoll_fd, .events = POLLIN};
        ppoll(&ready, 1, &left, NULL);
    }
    return epoll_wait(epoll_fd, events, EVENTS_MAX, 0);
}

static int by_value(const void *left, const void *right) {
    uint32_t l = *(const uint32_t *)left, r = *(const uint32_t *)right;
    return l < r ? -1 : l > r;
}

static double percentile_ms(double share) {
    if (!latencies_count) return 0;
    size_t at = (size_t)(share * (double)latencies_count);
    return latencies[at < latencies_count ? at : latencies_count - 1] / 1e4;
}

static void report(void) {
    double elapsed = (double)(last_answer_ns - measure_from_ns) / 1e9;
    if (elapsed <= 0) elapsed = 1e-9;
    qsort(latencies, latencies_count, sizeof *latencies, by_value);
    printf("{\"requests\": %llu, \"seconds\": %.4f, \"requests_per_second\": %.1f, \"megabytes_per_second\": %.2f, "
           "\"errors\": %llu, \"first_error_code\": %d, \"short_answers\": %llu, "
           "\"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}\n",
           (unsigned long long)answers, elapsed, (double)answers / elapsed, (double)answer_payload_bytes / elapsed / 1e6,
           (unsigned long long)errors, first_error_code, (unsigned long long)short_answers, percentile_ms(0.5),
           percentile_ms(0.99), percentile_ms(0.999), percentile_ms(1));
}

int main(int count, char **arguments) {
    read_settings(count, arguments);
    read_request();
    epoll_fd = epoll_create1(0);
    open_connections();
    fputs("connected\n", stderr); /* who looks at the broker meanwhile begins here */
    start_ns = now_ns();
    measure_from_ns = start_ns + (uint64_t)(settings.warmup_seconds * 1e9);
    measure_until_ns = measure_from_ns + (uint64_t)(settings.seconds * 1e9);
    for (int i = 0; i < settings.connections; i++) refill(&connections[i], start_ns);
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int ready = wait_for_events(events);
        if (ready < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) send_queued(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        }
        uint64_t now = now_ns();
        if (settings.rate > 0) pace(now);
        if (!measuring && now >= measure_from_ns) measuring = 1, measure_from_ns = now, last_answer_ns = now;
        if (now >= measure_until_ns) break;
        if (measuring && settings.max_bytes > 0 && (double)answer_payload_bytes >= settings.max_bytes) break;
    }
    report();
    return 0;
}
