/* Records to and from columns in Arrow's layout: int32 offsets, data, validity bits. Plain C, as _kernel_format.h is.
 *
 * Decoding first reserves the most memory that a batch's records can need, so that the loop itself only copies; a
 * corrupt batch leaves the columns unchanged. */
#ifndef OTTLA_KERNEL_COLUMNS_H
#define OTTLA_KERNEL_COLUMNS_H

#include "_kernel_format.h"

/* ---- columns out of batches ---- */

typedef struct {
    kernel_bytes validity;
    kernel_bytes offsets; /* one more than there are values */
    kernel_bytes data;
    int64_t null_count;
} kernel_column;

typedef struct {
    int64_t count;
    kernel_bytes record_offsets; /* int64 */
    kernel_bytes timestamps_us;  /* int64 */
    kernel_column key;
    kernel_column value;
    int with_headers;
    int64_t header_count;
    kernel_bytes list_offsets; /* int32, one more than there are records */
    kernel_column header_key;
    kernel_column header_value;
    int has_non_ascii_header_keys;
} kernel_sink;

static inline void kernel_put_int32(kernel_bytes *bytes, int32_t number)
{
    memcpy(bytes->data + bytes->size, &number, sizeof number);
    bytes->size += sizeof number;
}

static inline void kernel_put_int64(kernel_bytes *bytes, int64_t number)
{
    memcpy(bytes->data + bytes->size, &number, sizeof number);
    bytes->size += sizeof number;
}

/* Room for `more` values of `data_bytes` in all; new validity bits are zero. */
static inline int kernel_reserve_column(kernel_column *column, int64_t count, size_t more, size_t data_bytes)
{
    size_t bitmap_bytes = ((size_t)count + more + 7) / 8;
    if (!kernel_reserve(&column->offsets, (more + 1) * sizeof(int32_t)) || !kernel_reserve(&column->data, data_bytes))
        return 0;
    if (column->offsets.size == 0)
        kernel_put_int32(&column->offsets, 0);
    if (bitmap_bytes > column->validity.size) {
        size_t added = bitmap_bytes - column->validity.size;
        if (!kernel_reserve(&column->validity, added))
            return 0;
        memset(column->validity.data + column->validity.size, 0, added);
        column->validity.size = bitmap_bytes;
    }
    return 1;
}

static inline void kernel_put_value(kernel_column *column, int64_t index, const uint8_t *value, int64_t value_bytes)
{
    if (value_bytes >= 0) {
        column->validity.data[index >> 3] |= (uint8_t)(1 << (index & 7));
        kernel_put(&column->data, value, (size_t)value_bytes);
    } else {
        column->null_count++;
    }
    kernel_put_int32(&column->offsets, (int32_t)column->data.size);
}

static inline int64_t kernel_microseconds(int64_t milliseconds)
{
    if (milliseconds > INT64_MAX / 1000)
        return INT64_MAX;
    if (milliseconds < INT64_MIN / 1000)
        return INT64_MIN;
    return milliseconds * 1000;
}

static inline int kernel_put_headers(kernel_sink *sink, const kernel_record *record)
{
    if (record->header_count > 0) {
        size_t bytes = (size_t)(record->end - record->headers);
        if (!kernel_reserve_column(&sink->header_key, sink->header_count, (size_t)record->header_count, bytes) ||
            !kernel_reserve_column(&sink->header_value, sink->header_count, (size_t)record->header_count, bytes))
            return 0;
        const uint8_t *at = record->headers;
        for (int64_t index = 0; index < record->header_count; index++) {
            const uint8_t *key, *value;
            int64_t key_bytes, value_bytes;
            if (!kernel_read_header(&at, record->end, &key, &key_bytes, &value, &value_bytes))
                return 0; /* can't happen: it was valid when the record was read */
            for (int64_t position = 0; position < key_bytes; position++)
                sink->has_non_ascii_header_keys |= key[position] >= 0x80;
            kernel_put_value(&sink->header_key, sink->header_count, key, key_bytes);
            kernel_put_value(&sink->header_value, sink->header_count, value, value_bytes);
            sink->header_count++;
        }
    }
    kernel_put_int32(&sink->list_offsets, (int32_t)sink->header_count);
    return 1;
}

static inline void kernel_rewind_column(kernel_column *column, const kernel_column *before, int64_t count)
{
    if (column->data.data == NULL && column->offsets.data == NULL)
        return;
    column->data.size = before->data.size;
    column->offsets.size = before->offsets.size;
    column->null_count = before->null_count;
    /* Bits behind the last value must be zero: setting one doesn't clear it. */
    column->validity.size = ((size_t)count + 7) / 8;
    if (count % 8 != 0)
        column->validity.data[count / 8] &= (uint8_t)((1 << (count % 8)) - 1);
}

static inline void kernel_rewind(kernel_sink *sink, const kernel_sink *before)
{
    sink->count = before->count;
    sink->record_offsets.size = before->record_offsets.size;
    sink->timestamps_us.size = before->timestamps_us.size;
    sink->header_count = before->header_count;
    sink->list_offsets.size = before->list_offsets.size;
    sink->has_non_ascii_header_keys = before->has_non_ascii_header_keys;
    kernel_rewind_column(&sink->key, &before->key, before->count);
    kernel_rewind_column(&sink->value, &before->value, before->count);
    kernel_rewind_column(&sink->header_key, &before->header_key, before->header_count);
    kernel_rewind_column(&sink->header_value, &before->header_value, before->header_count);
}

static const char KERNEL_OUT_OF_MEMORY[] = "out of memory";
static const char KERNEL_COLUMN_FULL[] = "more than 2 GiB in one column";

/* Add the records of a batch's uncompressed body; a fault leaves the sink unchanged. */
static inline const char *kernel_sink_append(kernel_sink *sink, const uint8_t *body, size_t body_bytes,
                                             const kernel_batch_view *view)
{
    const char *fault = kernel_check_view(view, body_bytes);
    if (fault != NULL)
        return fault;
    size_t more = (size_t)view->record_count;
    const size_t room = INT32_MAX;
    if (body_bytes > room || sink->key.data.size + body_bytes > room || sink->value.data.size + body_bytes > room ||
        sink->header_key.data.size + body_bytes > room || sink->header_value.data.size + body_bytes > room ||
        (uint64_t)sink->header_count + body_bytes > room || (uint64_t)sink->count + more > room)
        return KERNEL_COLUMN_FULL;
    kernel_sink before = *sink;
    if (!kernel_reserve(&sink->record_offsets, more * sizeof(int64_t)) ||
        !kernel_reserve(&sink->timestamps_us, more * sizeof(int64_t)) ||
        !kernel_reserve_column(&sink->key, sink->count, more, body_bytes) ||
        !kernel_reserve_column(&sink->value, sink->count, more, body_bytes) ||
        (sink->with_headers && !kernel_reserve(&sink->list_offsets, (more + 1) * sizeof(int32_t)))) {
        kernel_rewind(sink, &before);
        return KERNEL_OUT_OF_MEMORY;
    }
    if (sink->with_headers && sink->list_offsets.size == 0)
        kernel_put_int32(&sink->list_offsets, 0);
    const uint8_t *at = body;
    const uint8_t *end = body + body_bytes;
    int64_t previous_delta = -1;
    kernel_record record;
    for (size_t index = 0; index < more; index++) {
        fault = kernel_read_record(&at, end, &record);
        if (fault == NULL && (record.offset_delta <= previous_delta || record.offset_delta > view->last_offset_delta))
            fault = "an offset delta out of order";
        if (fault != NULL)
            break;
        previous_delta = record.offset_delta;
        int64_t offset = view->base_offset + record.offset_delta;
        if (offset < view->from_offset || offset >= view->to_offset)
            continue;
        kernel_put_int64(&sink->record_offsets, offset);
        kernel_put_int64(&sink->timestamps_us, kernel_microseconds(kernel_timestamp_ms(view, &record)));
        kernel_put_value(&sink->key, sink->count, record.key, record.key_bytes);
        kernel_put_value(&sink->value, sink->count, record.value, record.value_bytes);
        if (sink->with_headers && !kernel_put_headers(sink, &record)) {
            fault = KERNEL_OUT_OF_MEMORY;
            break;
        }
        sink->count++;
    }
    if (fault == NULL && at != end)
        fault = "bytes after the last record";
    if (fault != NULL)
        kernel_rewind(sink, &before);
    return fault;
}

static inline void kernel_release_column(kernel_column *column)
{
    kernel_release(&column->validity);
    kernel_release(&column->offsets);
    kernel_release(&column->data);
    column->null_count = 0;
}

static inline void kernel_release_sink(kernel_sink *sink)
{
    kernel_release(&sink->record_offsets);
    kernel_release(&sink->timestamps_us);
    kernel_release_column(&sink->key);
    kernel_release_column(&sink->value);
    kernel_release(&sink->list_offsets);
    kernel_release_column(&sink->header_key);
    kernel_release_column(&sink->header_value);
    sink->count = sink->header_count = 0;
    sink->has_non_ascii_header_keys = 0;
}

/* ---- batches out of columns ---- */

/* The values of an Arrow binary array: its buffers; `first` is the array's offset into them. */
typedef struct {
    const void *offsets; /* int32; not always aligned, for example in a mapped file */
    size_t offset_count;
    const uint8_t *data;
    size_t data_bytes;
    const uint8_t *validity; /* NULL if no value is null */
    size_t validity_bytes;
    size_t first;
    size_t count;
} kernel_values;

static inline int64_t kernel_int32_at(const void *numbers, size_t index)
{
    int32_t number;
    memcpy(&number, (const uint8_t *)numbers + index * sizeof number, sizeof number);
    return number;
}

static inline int64_t kernel_int64_at(const void *numbers, size_t index)
{
    int64_t number;
    memcpy(&number, (const uint8_t *)numbers + index * sizeof number, sizeof number);
    return number;
}

static inline int kernel_is_valid(const uint8_t *validity, size_t index)
{
    return validity == NULL || (validity[index >> 3] >> (index & 7) & 1);
}

/* Whether the buffers are as long as the array says; what the offsets say is checked with each value. */
static inline int kernel_values_are_whole(size_t offset_count, const uint8_t *validity, size_t validity_bytes,
                                          size_t first, size_t count)
{
    if (first > INT32_MAX || count > INT32_MAX)
        return 0;
    if (count > 0 && offset_count < first + count + 1)
        return 0;
    return validity == NULL || validity_bytes >= (first + count + 7) / 8;
}

/* The value at `index`; 0 when its offsets lie outside of the data. */
static inline int kernel_value_at(const kernel_values *values, size_t index, const uint8_t **value,
                                  int64_t *value_bytes)
{
    index += values->first;
    if (!kernel_is_valid(values->validity, index)) {
        *value_bytes = -1;
        return 1;
    }
    int64_t start = kernel_int32_at(values->offsets, index);
    int64_t end = kernel_int32_at(values->offsets, index + 1);
    if (start < 0 || end < start || (uint64_t)end > values->data_bytes)
        return 0;
    *value = values->data + start;
    *value_bytes = end - start;
    return 1;
}

typedef struct {
    kernel_values lists; /* data and data_bytes are not used */
    kernel_values keys;
    kernel_values values;
} kernel_header_lists;

/* The encoded headers of a row, their count in front; a fault or NULL. */
static inline const char *kernel_encode_headers(kernel_bytes *block, const kernel_header_lists *headers, size_t row)
{
    block->size = 0;
    if (!kernel_reserve(block, KERNEL_MAX_VARINT_BYTES))
        return KERNEL_OUT_OF_MEMORY;
    row += headers->lists.first;
    int64_t start = 0, end = 0;
    if (kernel_is_valid(headers->lists.validity, row)) {
        start = kernel_int32_at(headers->lists.offsets, row);
        end = kernel_int32_at(headers->lists.offsets, row + 1);
        if (start < 0 || end < start || (uint64_t)end > headers->keys.count || (uint64_t)end > headers->values.count)
            return "a list of headers outside of its array";
    }
    kernel_put_varint(block, end - start);
    for (int64_t index = start; index < end; index++) {
        const uint8_t *key = NULL, *value = NULL;
        int64_t key_bytes, value_bytes;
        if (!kernel_value_at(&headers->keys, (size_t)index, &key, &key_bytes) ||
            !kernel_value_at(&headers->values, (size_t)index, &value, &value_bytes))
            return "a header outside of its array";
        if (key_bytes < 0)
            return "a header without a key";
        if (!kernel_put_header(block, key, (size_t)key_bytes, value, value_bytes))
            return KERNEL_OUT_OF_MEMORY;
    }
    return NULL;
}

/* Append rows from `*at` on until the batch is full, moving `*at`; a fault or NULL. */
static inline const char *kernel_append_rows(kernel_batch *batch, kernel_bytes *block, const void *rows,
                                             size_t row_count, size_t *at, const void *timestamps_ms, size_t count,
                                             const kernel_values *keys, const kernel_values *values,
                                             const kernel_header_lists *headers)
{
    static const uint8_t no_headers[1] = {0};
    for (; *at < row_count; (*at)++) {
        int64_t asked = kernel_int64_at(rows, *at);
        size_t row = (size_t)asked;
        if (asked < 0 || row >= count)
            return "a row outside of the table";
        const uint8_t *key = NULL, *value = NULL, *encoded = no_headers;
        int64_t key_bytes = -1, value_bytes = -1;
        size_t encoded_bytes = 1;
        if ((keys != NULL && !kernel_value_at(keys, row, &key, &key_bytes)) ||
            (values != NULL && !kernel_value_at(values, row, &value, &value_bytes)))
            return "a value outside of its array";
        if (headers != NULL) {
            const char *fault = kernel_encode_headers(block, headers, row);
            if (fault != NULL)
                return fault;
            encoded = block->data;
            encoded_bytes = block->size;
        }
        switch (kernel_append_record(batch, kernel_int64_at(timestamps_ms, row), key, key_bytes, value, value_bytes,
                                     encoded, encoded_bytes)) {
        case KERNEL_APPENDED:
            break;
        case KERNEL_FULL:
            return NULL;
        case KERNEL_TOO_LARGE:
            return "a batch of more than 2 GiB";
        default:
            return KERNEL_OUT_OF_MEMORY;
        }
    }
    return NULL;
}

#endif
