/* The walk through the records that a client produced: do the records of a batch agree with its header?
 *
 * Plain C, fuzzed alone; records/walk.py has the same in Python. Stricter than the readers of _kernel_format.h:
 * lengths, counts and offset deltas are 32-bit numbers of at most five bytes, because a Java reader fails on anything
 * else. */
#ifndef OTTLA_KERNEL_WALK_H
#define OTTLA_KERNEL_WALK_H

#include "_kernel_format.h"

#define KERNEL_NO_TIMESTAMP (-1)

/* A zigzag varint of at most 32 bits; 0 when it crosses `end` or is longer. */
static inline int kernel_read_int(const uint8_t **at, const uint8_t *end, int64_t *number)
{
    const uint8_t *position = *at;
    if (KERNEL_UNLIKELY(position >= end))
        return 0;
    uint64_t rest = *position++;
    if (rest >= 0x80) {
        rest &= 0x7F;
        for (int shift = 7;; shift += 7) {
            if (position >= end || shift > 28)
                return 0;
            uint64_t byte = *position++;
            if (shift == 28 && byte > 0x0F)
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

/* Skip a length and that many bytes; `least` is -1 where null is allowed. */
static inline int kernel_skip_field(const uint8_t **at, const uint8_t *end, int64_t least, int64_t *length)
{
    if (KERNEL_UNLIKELY(!kernel_read_int(at, end, length) || *length < least))
        return 0;
    if (*length > 0) {
        if (KERNEL_UNLIKELY(*length > end - *at))
            return 0;
        *at += *length;
    }
    return 1;
}

typedef struct {
    int64_t min_timestamp_ms; /* the base timestamp if no record has an earlier one */
    int64_t max_timestamp_ms; /* none if no record has one, as Kafka computes it */
    int64_t index;            /* the record that a fault is about */
} kernel_walk;

static inline const char *kernel_walk_record(const uint8_t **at, const uint8_t *end, int64_t base_timestamp_ms,
                                             kernel_walk *walk, int64_t *key_bytes)
{
    int64_t length, offset_delta, timestamp_delta, value_bytes, header_count, header_bytes;
    const uint8_t *position = *at;
    if (KERNEL_UNLIKELY(!kernel_read_int(&position, end, &length) || length <= 0 || length > end - position))
        return "runs over the end of its batch";
    const uint8_t *record_end = position + length;
    position++; /* attributes, of which none is in use */
    if (KERNEL_UNLIKELY(!kernel_read_varint(&position, record_end, &timestamp_delta) ||
                        !kernel_read_int(&position, record_end, &offset_delta)))
        return "ends within its deltas";
    if (KERNEL_UNLIKELY(offset_delta != walk->index))
        return "has the offset of another one";
    if (KERNEL_UNLIKELY(!kernel_skip_field(&position, record_end, -1, key_bytes)))
        return "has a key of a wrong length";
    if (KERNEL_UNLIKELY(!kernel_skip_field(&position, record_end, -1, &value_bytes)))
        return "has a value of a wrong length";
    if (KERNEL_UNLIKELY(!kernel_read_int(&position, record_end, &header_count) || header_count < 0 ||
                        header_count > (record_end - position) / 2))
        return "has more headers than bytes for them";
    for (int64_t index = 0; index < header_count; index++)
        if (!kernel_skip_field(&position, record_end, 0, &header_bytes) ||
            !kernel_skip_field(&position, record_end, -1, &header_bytes))
            return "has a header of a wrong length";
    if (KERNEL_UNLIKELY(position != record_end))
        return "ends away from where its length says";
    int64_t timestamp_ms = kernel_wrapping_add(base_timestamp_ms, timestamp_delta);
    if (timestamp_ms > walk->max_timestamp_ms)
        walk->max_timestamp_ms = timestamp_ms;
    if (timestamp_ms < walk->min_timestamp_ms)
        walk->min_timestamp_ms = timestamp_ms;
    *at = record_end;
    return NULL;
}

#define KERNEL_NO_MEMORY_FOR_KEYLESS "no memory"

/* Walk all records; `keyless`, unless it is NULL, gets the index of each record without a key as an int32. */
static inline const char *kernel_walk_records(const uint8_t *data, size_t size, int64_t record_count,
                                              int64_t base_timestamp_ms, kernel_walk *walk, kernel_bytes *keyless)
{
    const uint8_t *at = data;
    const uint8_t *end = data + size;
    walk->min_timestamp_ms = base_timestamp_ms;
    walk->max_timestamp_ms = KERNEL_NO_TIMESTAMP;
    walk->index = 0;
    if (record_count < 0 || record_count > INT32_MAX || (uint64_t)record_count > size / KERNEL_MIN_RECORD_BYTES)
        return "is one of more records than fit into the batch";
    for (; walk->index < record_count; walk->index++) {
        int64_t key_bytes;
        const char *fault = kernel_walk_record(&at, end, base_timestamp_ms, walk, &key_bytes);
        if (fault != NULL)
            return fault;
        if (keyless != NULL && key_bytes < 0) {
            int32_t index = (int32_t)walk->index;
            if (!kernel_reserve(keyless, sizeof index))
                return KERNEL_NO_MEMORY_FOR_KEYLESS;
            kernel_put(keyless, &index, sizeof index);
        }
    }
    return at == end ? NULL : "is not the last one";
}

#endif
