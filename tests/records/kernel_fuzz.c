/* Throws damaged batches and damaged columns at the plain C half of the kernel; built with sanitizers, run by
 * test_kernel_fuzz.py and `make fuzz-kernel`. Usage: kernel_fuzz ROUNDS SEED. The same seed does the same. */
#include <stdio.h>

#include "_kernel_columns.h"
#include "_kernel_walk.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: round %llu: %s does not hold\n", __FILE__, __LINE__, current_round, #condition);   \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static unsigned long long current_round;
static uint64_t state;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t below(uint64_t bound)
{
    return next_random() % bound;
}

/* A number as strangers like them: small, at an edge, or anything. */
static int64_t any_number(void)
{
    static const int64_t edges[] = {0,         -1,        1,        INT32_MAX, INT32_MIN,     INT64_MAX,
                                    INT64_MIN, UINT32_MAX, -2, 127, INT64_MAX / 1000, INT64_MIN / 1000 - 1};
    switch (below(3)) {
    case 0:
        return (int64_t)below(20);
    case 1:
        return edges[below(sizeof edges / sizeof *edges)];
    default:
        return (int64_t)next_random();
    }
}

/* Memory of exactly this size, so that the sanitizer sees every step beyond it. */
static uint8_t *exact_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (copy == NULL)
        abort();
    if (size)
        memcpy(copy, data, size);
    return copy;
}

static void make_batch(kernel_batch *batch)
{
    uint8_t data[400];
    kernel_bytes block = {NULL, 0, 0};
    for (size_t index = 0; index < sizeof data; index++)
        data[index] = (uint8_t)next_random();
    size_t records = below(12);
    for (size_t index = 0; index < records; index++) {
        size_t headers = below(4) == 0 ? below(12) : 0;
        block.size = 0;
        CHECK(kernel_reserve(&block, KERNEL_MAX_VARINT_BYTES));
        kernel_put_varint(&block, (int64_t)headers);
        for (size_t header = 0; header < headers; header++)
            CHECK(kernel_put_header(&block, data, below(20), data, (int64_t)below(30) - 1));
        int64_t timestamp_ms = below(8) ? 1700000000000 + (int64_t)below(5000) : any_number();
        int outcome = kernel_append_record(batch, timestamp_ms, data, (int64_t)below(40) - 1, data,
                                           (int64_t)below(300) - 1, block.data, block.size);
        CHECK(outcome == KERNEL_APPENDED || outcome == KERNEL_FULL);
    }
    kernel_release(&block);
}

static void damage(kernel_bytes *bytes)
{
    for (uint64_t times = below(5); times > 0 && bytes->size > 0; times--) {
        size_t at = below(bytes->size);
        switch (below(6)) {
        case 0:
            bytes->data[at] ^= (uint8_t)(1 << below(8));
            break;
        case 1:
            bytes->data[at] = (uint8_t)next_random();
            break;
        case 2:
            bytes->data[at] = 0xFF;
            break;
        case 3:
            bytes->size = at;
            break;
        case 4: /* a long number in the place of what was there */
            for (size_t step = 0; step < 11 && at + step < bytes->size; step++)
                bytes->data[at + step] = (uint8_t)(next_random() | 0x80);
            break;
        default: /* a stretch that is there twice */
            if (bytes->size < 4096) {
                size_t length = below(bytes->size - at) + 1;
                CHECK(kernel_reserve(bytes, length));
                memmove(bytes->data + at + length, bytes->data + at, bytes->size - at);
                bytes->size += length;
            }
        }
    }
}

static void check_column(const kernel_column *column, int64_t count)
{
    if (column->offsets.size == 0) {
        CHECK(count == 0);
        return;
    }
    CHECK(column->offsets.size == ((size_t)count + 1) * sizeof(int32_t));
    int64_t previous = 0, nulls = 0;
    for (int64_t index = 0; index <= count; index++) {
        int32_t offset;
        memcpy(&offset, column->offsets.data + (size_t)index * sizeof offset, sizeof offset);
        CHECK(offset >= previous);
        previous = offset;
        if (index < count)
            nulls += !kernel_is_valid(column->validity.data, (size_t)index);
    }
    CHECK((size_t)previous == column->data.size);
    CHECK(nulls == column->null_count);
}

static void decode(kernel_sink *sink, const kernel_bytes *body, int64_t record_count, int is_sound)
{
    kernel_batch_view view = {.base_offset = below(4) ? (int64_t)below(1000) : any_number(),
                              .base_timestamp_ms = any_number(),
                              .append_time_ms = any_number(),
                              .has_append_time = (int)below(2),
                              .last_offset_delta = below(4) ? record_count - 1 : any_number(),
                              .record_count = below(4) ? record_count : any_number(),
                              .from_offset = below(2) ? INT64_MIN : any_number(),
                              .to_offset = below(2) ? INT64_MAX : any_number()};
    if (is_sound) {
        view.base_offset = 5;
        view.last_offset_delta = record_count - 1;
        view.record_count = record_count;
    }
    kernel_sink before = *sink;
    uint8_t *copy = exact_copy(body->data, body->size);
    const char *fault = kernel_sink_append(sink, copy, body->size, &view);
    CHECK(fault == NULL || !is_sound);
    if (fault != NULL) {
        CHECK(sink->count == before.count && sink->header_count == before.header_count);
        CHECK(sink->key.data.size == before.key.data.size && sink->value.data.size == before.value.data.size);
    } else {
        CHECK(sink->count - before.count <= view.record_count);
    }
    check_column(&sink->key, sink->count);
    check_column(&sink->value, sink->count);
    check_column(&sink->header_key, sink->header_count);
    check_column(&sink->header_value, sink->header_count);
    free(copy);
}

/* What the walk lets through, every reader can read. */
static void walk(const kernel_bytes *body, int64_t record_count, int is_sound)
{
    kernel_walk walked;
    kernel_bytes keyless = {NULL, 0, 0};
    int64_t base_timestamp_ms = below(4) ? 1700000000000 : any_number();
    if (!is_sound && below(4) == 0)
        record_count = any_number();
    uint8_t *copy = exact_copy(body->data, body->size);
    const char *fault =
        kernel_walk_records(copy, body->size, record_count, base_timestamp_ms, &walked, below(2) ? &keyless : NULL);
    CHECK(fault == NULL || !is_sound);
    CHECK(keyless.size <= (size_t)(record_count < 0 ? 0 : record_count) * sizeof(int32_t));
    if (fault == NULL) {
        const uint8_t *at = copy;
        int64_t largest_ms = -1;
        CHECK(walked.index == record_count);
        for (int64_t index = 0; index < record_count; index++) {
            kernel_record record;
            CHECK(kernel_read_record(&at, copy + body->size, &record) == NULL);
            CHECK(record.offset_delta == index);
            int64_t timestamp_ms = kernel_wrapping_add(base_timestamp_ms, record.timestamp_delta);
            CHECK(timestamp_ms <= walked.max_timestamp_ms && timestamp_ms >= walked.min_timestamp_ms);
            if (timestamp_ms > largest_ms)
                largest_ms = timestamp_ms;
        }
        CHECK(at == copy + body->size && largest_ms == walked.max_timestamp_ms);
    }
    kernel_release(&keyless);
    free(copy);
}

enum { ROWS = 9, HEADERS = 14, DATA = 64 };

/* Columns whose buffers are of the right size, or a little less, with offsets that may point anywhere. */
static kernel_values make_values(size_t count, size_t data_bytes)
{
    kernel_values values;
    memset(&values, 0, sizeof values);
    values.first = below(3);
    values.count = count;
    values.offset_count = values.first + count + (below(20) ? 1 : 0);
    values.data_bytes = below(8) ? data_bytes : below(data_bytes + 1);
    int32_t *offsets = malloc(values.offset_count * sizeof *offsets + 1);
    uint8_t *data = malloc(values.data_bytes + 1);
    if (offsets == NULL || data == NULL)
        abort();
    int32_t offset = 0;
    for (size_t index = 0; index < values.offset_count; index++) {
        offsets[index] = below(60) ? offset : (int32_t)any_number();
        offset += (int32_t)below(data_bytes / (values.offset_count + 1) + 1);
    }
    memset(data, 'x', values.data_bytes + 1);
    values.offsets = offsets;
    values.data = data;
    if (below(2)) {
        values.validity_bytes = (values.first + count + 7) / 8 - (below(20) ? 0 : 1);
        uint8_t *validity = malloc(values.validity_bytes + 1);
        if (validity == NULL)
            abort();
        memset(validity, below(3) ? 0xFF : (int)below(256), values.validity_bytes + 1);
        values.validity = validity;
    }
    return values;
}

static void free_values(kernel_values *values)
{
    free((void *)values->offsets);
    free((void *)values->data);
    free((void *)values->validity);
}

static int is_whole(const kernel_values *values)
{
    return kernel_values_are_whole(values->offset_count, values->validity, values->validity_bytes, values->first,
                                   values->count);
}

static void encode(kernel_batch *batch)
{
    kernel_values keys = make_values(ROWS, DATA), values = make_values(ROWS, DATA);
    kernel_header_lists headers = {make_values(ROWS, HEADERS), make_values(HEADERS, DATA), make_values(HEADERS, DATA)};
    int64_t rows[ROWS], timestamps_ms[ROWS];
    kernel_bytes block = {NULL, 0, 0};
    for (size_t index = 0; index < ROWS; index++) {
        rows[index] = below(30) ? (int64_t)below(ROWS) : any_number();
        timestamps_ms[index] = any_number();
    }
    size_t at = below(3);
    if (is_whole(&keys) && is_whole(&values) && is_whole(&headers.lists) && is_whole(&headers.keys) &&
        is_whole(&headers.values)) {
        const char *fault = kernel_append_rows(batch, &block, rows, ROWS, &at, timestamps_ms, ROWS,
                                               below(8) ? &keys : NULL, below(8) ? &values : NULL,
                                               below(2) ? &headers : NULL);
        CHECK(at <= ROWS);
        CHECK(fault == NULL || at < ROWS);
    }
    kernel_release(&block);
    free_values(&keys);
    free_values(&values);
    free_values(&headers.lists);
    free_values(&headers.keys);
    free_values(&headers.values);
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 3) {
        fprintf(stderr, "usage: kernel_fuzz ROUNDS SEED\n");
        return 2;
    }
    unsigned long long rounds = strtoull(arguments[1], NULL, 10);
    state = strtoull(arguments[2], NULL, 10) * 0x9E3779B97F4A7C15ULL | 1;
    unsigned long long decoded = 0;
    kernel_sink sink;
    memset(&sink, 0, sizeof sink);
    for (current_round = 0; current_round < rounds; current_round++) {
        kernel_batch batch = {.limit_bytes = below(3000), .base_timestamp_ms = -1, .max_timestamp_ms = -1};
        make_batch(&batch);
        if (below(3) == 0)
            encode(&batch);
        /* Whatever was appended is read back. */
        decode(&sink, &batch.records, batch.record_count, 1);
        walk(&batch.records, batch.record_count, 1);
        damage(&batch.records);
        decode(&sink, &batch.records, batch.record_count, 0);
        walk(&batch.records, batch.record_count, 0);
        if (batch.records.size > 0) {
            uint8_t *key = exact_copy(batch.records.data, batch.records.size);
            decoded += kernel_murmur2(key, batch.records.size) & 1;
            free(key);
        }
        kernel_release(&batch.records);
        if (below(16) == 0) {
            decoded += (unsigned long long)sink.count;
            kernel_release_sink(&sink);
            sink.with_headers = (int)below(2);
        }
    }
    kernel_release_sink(&sink);
    printf("%llu rounds, about %llu records decoded\n", rounds, decoded);
    return 0;
}
