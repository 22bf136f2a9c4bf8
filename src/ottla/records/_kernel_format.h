/* Record batch format v2 in plain C: numbers, one record in, one record out, the hash of a key.
 *
 * Knows nothing of Python, so that it can be fuzzed alone (tests/records/kernel_fuzz.c). The bytes are untrusted: every
 * length is checked against the bytes left before it is used. A fault is a text, NULL means valid. */
#ifndef OTTLA_KERNEL_FORMAT_H
#define OTTLA_KERNEL_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_MIN_RECORD_BYTES 7 /* a length and six fields, one byte each */
#define KERNEL_MAX_VARINT_BYTES 10
#define KERNEL_BATCH_HEADER_BYTES 61

#if defined(__GNUC__) || defined(__clang__)
#define KERNEL_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#else
#define KERNEL_UNLIKELY(condition) (condition)
#endif

/* ---- bytes that grow ---- */

typedef struct {
    uint8_t *data;
    size_t size;
    size_t capacity;
} kernel_bytes;

/* 0 when there is no memory for `more` bytes; what was there stays. */
static inline int kernel_reserve(kernel_bytes *bytes, size_t more)
{
    if (more <= bytes->capacity - bytes->size)
        return 1;
    if (more > SIZE_MAX / 4 || bytes->size > SIZE_MAX / 4)
        return 0;
    size_t capacity = bytes->capacity + bytes->capacity / 2;
    if (capacity < bytes->size + more)
        capacity = bytes->size + more;
    if (capacity < 64)
        capacity = 64;
    uint8_t *data = realloc(bytes->data, capacity);
    if (data == NULL)
        return 0;
    bytes->data = data;
    bytes->capacity = capacity;
    return 1;
}

static inline void kernel_put(kernel_bytes *bytes, const void *source, size_t size)
{
    if (size != 0) { /* memcpy from NULL is undefined, even for 0 bytes */
        memcpy(bytes->data + bytes->size, source, size);
        bytes->size += size;
    }
}

static inline void kernel_release(kernel_bytes *bytes)
{
    free(bytes->data);
    bytes->data = NULL;
    bytes->size = bytes->capacity = 0;
}

/* ---- numbers ---- */

/* 64-bit sums wrap around, as in Java; signed overflow is undefined in C, so the sums are unsigned. */
static inline int64_t kernel_wrapping_add(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left + (uint64_t)right);
}

static inline int64_t kernel_wrapping_subtract(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left - (uint64_t)right);
}

static inline int64_t kernel_unzigzag(uint64_t number)
{
    return (int64_t)((number >> 1) ^ (~(number & 1) + 1));
}

/* A zigzag varint of at most 64 bits; 0 when it crosses `end` or is longer. */
static inline int kernel_read_varint(const uint8_t **at, const uint8_t *end, int64_t *number)
{
    const uint8_t *position = *at;
    if (KERNEL_UNLIKELY(position >= end))
        return 0;
    uint64_t rest = *position++;
    if (KERNEL_UNLIKELY(rest >= 0x80)) {
        rest &= 0x7F;
        for (int shift = 7;; shift += 7) {
            if (position >= end || shift > 63)
                return 0;
            uint64_t byte = *position++;
            if (shift == 63 && byte > 1)
                return 0;
            rest |= (byte & 0x7F) << shift;
            if (byte < 0x80)
                break;
        }
    }
    *at = position;
    *number = kernel_unzigzag(rest);
    return 1;
}

static inline size_t kernel_varint_bytes(int64_t number)
{
    uint64_t rest = ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
    size_t size = 1;
    while (rest >= 0x80) {
        rest >>= 7;
        size++;
    }
    return size;
}

/* There must be room for ten bytes. */
static inline void kernel_put_varint(kernel_bytes *bytes, int64_t number)
{
    uint64_t rest = ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
    uint8_t *at = bytes->data + bytes->size;
    while (rest >= 0x80) {
        *at++ = (uint8_t)(rest | 0x80);
        rest >>= 7;
    }
    *at++ = (uint8_t)rest;
    bytes->size = (size_t)(at - bytes->data);
}

/* ---- one record in ---- */

typedef struct {
    int64_t timestamp_delta;
    int64_t offset_delta;
    const uint8_t *key; /* valid unless its length is negative; -1 is null */
    int64_t key_bytes;
    const uint8_t *value;
    int64_t value_bytes;
    const uint8_t *headers; /* the first header's key length */
    int64_t header_count;
    const uint8_t *end;
} kernel_record;

static inline int kernel_read_field(const uint8_t **at, const uint8_t *end, const uint8_t **field, int64_t *length)
{
    if (KERNEL_UNLIKELY(!kernel_read_varint(at, end, length)))
        return 0;
    *field = *at;
    if (*length < 0)
        return *length == -1;
    if (KERNEL_UNLIKELY(*length > end - *at))
        return 0;
    *at += *length;
    return 1;
}

/* A header that lies wholly before `end`; its key is never null. */
static inline int kernel_read_header(const uint8_t **at, const uint8_t *end, const uint8_t **key, int64_t *key_bytes,
                                     const uint8_t **value, int64_t *value_bytes)
{
    return kernel_read_field(at, end, key, key_bytes) && *key_bytes >= 0 &&
           kernel_read_field(at, end, value, value_bytes);
}

/* Read the record at `*at` and move `*at` behind it. */
static inline const char *kernel_read_record(const uint8_t **at, const uint8_t *end, kernel_record *record)
{
    int64_t length;
    const uint8_t *position = *at;
    if (KERNEL_UNLIKELY(!kernel_read_varint(&position, end, &length) || length < 0 || length > end - position))
        return "a record runs over the end of its batch";
    const uint8_t *record_end = position + length;
    if (KERNEL_UNLIKELY(length == 0))
        return "a record of no bytes";
    position++; /* attributes, of which none is in use */
    if (KERNEL_UNLIKELY(!kernel_read_varint(&position, record_end, &record->timestamp_delta) ||
                        !kernel_read_varint(&position, record_end, &record->offset_delta)))
        return "a record ends within its deltas";
    if (KERNEL_UNLIKELY(!kernel_read_field(&position, record_end, &record->key, &record->key_bytes)))
        return "a key of a wrong length";
    if (KERNEL_UNLIKELY(!kernel_read_field(&position, record_end, &record->value, &record->value_bytes)))
        return "a value of a wrong length";
    if (KERNEL_UNLIKELY(!kernel_read_varint(&position, record_end, &record->header_count)))
        return "a record ends before its headers";
    record->headers = position;
    if (KERNEL_UNLIKELY(record->header_count != 0)) {
        if (record->header_count < 0 || record->header_count > (record_end - position) / 2)
            return "more headers than bytes for them";
        const uint8_t *field;
        int64_t field_bytes;
        for (int64_t index = 0; index < record->header_count; index++)
            if (!kernel_read_header(&position, record_end, &field, &field_bytes, &field, &field_bytes))
                return "a header of a wrong length";
    }
    if (KERNEL_UNLIKELY(position != record_end))
        return "a record ends away from where its length says";
    record->end = record_end;
    *at = record_end;
    return NULL;
}

/* The fields of a batch's header that its records must agree with. */
typedef struct {
    int64_t base_offset;
    int64_t base_timestamp_ms;
    int64_t append_time_ms;
    int has_append_time;
    int64_t last_offset_delta;
    int64_t record_count;
    int64_t from_offset; /* records before it, and from `to_offset` on, are checked and skipped */
    int64_t to_offset;
} kernel_batch_view;

static inline const char *kernel_check_view(const kernel_batch_view *view, size_t body_bytes)
{
    if (view->record_count < 0 || (uint64_t)view->record_count > body_bytes / KERNEL_MIN_RECORD_BYTES)
        return "more records than bytes for them";
    if (view->last_offset_delta > 0 && view->base_offset > INT64_MAX - view->last_offset_delta)
        return "offsets beyond 64 bits";
    return NULL;
}

static inline int64_t kernel_timestamp_ms(const kernel_batch_view *view, const kernel_record *record)
{
    return view->has_append_time ? view->append_time_ms
                                 : kernel_wrapping_add(view->base_timestamp_ms, record->timestamp_delta);
}

/* ---- one record out ---- */

typedef struct {
    kernel_bytes records;
    size_t limit_bytes; /* of the whole batch with its header, uncompressed */
    int64_t record_count;
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms;
} kernel_batch;

enum { KERNEL_FULL = 0, KERNEL_APPENDED = 1, KERNEL_NO_MEMORY = -1, KERNEL_TOO_LARGE = -2 };

/* `headers` are encoded, their count in front. The first record is taken whatever its size. */
static inline int kernel_append_record(kernel_batch *batch, int64_t timestamp_ms, const uint8_t *key, int64_t key_bytes,
                                       const uint8_t *value, int64_t value_bytes, const uint8_t *headers,
                                       size_t headers_bytes)
{
    uint64_t data_bytes = (key_bytes > 0 ? (uint64_t)key_bytes : 0) + (value_bytes > 0 ? (uint64_t)value_bytes : 0);
    if (data_bytes > INT32_MAX || headers_bytes > INT32_MAX)
        return KERNEL_TOO_LARGE;
    int is_first = batch->record_count == 0;
    int64_t timestamp_delta = is_first ? 0 : kernel_wrapping_subtract(timestamp_ms, batch->base_timestamp_ms);
    size_t length = 1 + kernel_varint_bytes(timestamp_delta) + kernel_varint_bytes(batch->record_count) +
                    kernel_varint_bytes(key_bytes) + kernel_varint_bytes(value_bytes) + (size_t)data_bytes +
                    headers_bytes;
    size_t size = kernel_varint_bytes((int64_t)length) + length;
    size_t batch_bytes = KERNEL_BATCH_HEADER_BYTES + batch->records.size + size;
    if (!is_first && batch_bytes > batch->limit_bytes)
        return KERNEL_FULL;
    if (batch_bytes > INT32_MAX || batch->record_count >= INT32_MAX)
        return KERNEL_TOO_LARGE;
    /* A number is written only where ten bytes are left. */
    if (!kernel_reserve(&batch->records, size + KERNEL_MAX_VARINT_BYTES))
        return KERNEL_NO_MEMORY;
    kernel_bytes *records = &batch->records;
    kernel_put_varint(records, (int64_t)length);
    records->data[records->size++] = 0; /* attributes */
    kernel_put_varint(records, timestamp_delta);
    kernel_put_varint(records, batch->record_count);
    kernel_put_varint(records, key_bytes);
    kernel_put(records, key, key_bytes > 0 ? (size_t)key_bytes : 0);
    kernel_put_varint(records, value_bytes);
    kernel_put(records, value, value_bytes > 0 ? (size_t)value_bytes : 0);
    kernel_put(records, headers, headers_bytes);
    if (is_first)
        batch->base_timestamp_ms = timestamp_ms;
    if (timestamp_ms > batch->max_timestamp_ms)
        batch->max_timestamp_ms = timestamp_ms;
    batch->record_count++;
    return KERNEL_APPENDED;
}

/* One header into `block`; 0 when there is no memory. */
static inline int kernel_put_header(kernel_bytes *block, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                                    int64_t value_bytes)
{
    size_t data_bytes = value_bytes > 0 ? (size_t)value_bytes : 0;
    if (!kernel_reserve(block, 2 * KERNEL_MAX_VARINT_BYTES + key_bytes + data_bytes))
        return 0;
    kernel_put_varint(block, (int64_t)key_bytes);
    kernel_put(block, key, key_bytes);
    kernel_put_varint(block, value_bytes);
    kernel_put(block, value, data_bytes);
    return 1;
}

/* ---- the hash that chooses a partition (murmur2, Kafka's seed) ---- */

static inline uint32_t kernel_murmur2(const uint8_t *key, size_t size)
{
    const uint32_t multiplier = 0x5BD1E995;
    uint32_t hash = 0x9747B28CU ^ (uint32_t)size;
    while (size >= 4) {
        uint32_t word = (uint32_t)key[0] | (uint32_t)key[1] << 8 | (uint32_t)key[2] << 16 | (uint32_t)key[3] << 24;
        word *= multiplier;
        word ^= word >> 24;
        hash = hash * multiplier ^ word * multiplier;
        key += 4;
        size -= 4;
    }
    if (size > 0) {
        if (size == 3)
            hash ^= (uint32_t)key[2] << 16;
        if (size >= 2)
            hash ^= (uint32_t)key[1] << 8;
        hash = (hash ^ key[0]) * multiplier;
    }
    hash = (hash ^ hash >> 13) * multiplier;
    return hash ^ hash >> 15;
}

#endif
