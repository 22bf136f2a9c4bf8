/* FetchedRecord: a record that knows where its bytes are and decodes a field when it is read; split_records. */
#ifndef OTTLA_KERNEL_RECORD_H
#define OTTLA_KERNEL_RECORD_H

#include "_kernel_module.h"

/* What the records of one batch share; lives as long as the last of them. Not a Python object: it is never visible. */
typedef struct {
    Py_ssize_t references; /* changed under the interpreter's lock only */
    PyObject *body;        /* bytes, or NULL for a record that Python code constructed */
    const uint8_t *data;
    PyObject *topic;
    long partition;
    long leader_epoch;
    int timestamp_type;
} shared_batch;

/* Not tracked by the garbage collector: there are millions of records, and they hold bytes. A deserialized value that
 * refers back to its own record would be a cycle that is never freed. */
typedef struct {
    PyObject_HEAD
    shared_batch *batch;
    int64_t offset;
    int64_t timestamp_ms;
    uint32_t key_position;
    int32_t key_bytes;
    uint32_t value_position;
    int32_t value_bytes;
    uint32_t headers_position;
    uint32_t header_count;
    PyObject *key; /* NULL until it is read */
    PyObject *value;
    PyObject *headers;
} fetched_record;

static PyTypeObject *fetched_record_type;
static allocfunc allocate_record;

static void release_batch(shared_batch *batch)
{
    if (batch != NULL && --batch->references == 0) {
        Py_XDECREF(batch->body);
        Py_XDECREF(batch->topic);
        PyMem_Free(batch);
    }
}

static shared_batch *new_batch(PyObject *topic, long partition, long leader_epoch, int timestamp_type)
{
    shared_batch *batch = PyMem_Malloc(sizeof *batch);
    if (batch == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    batch->references = 1;
    batch->body = NULL;
    batch->data = NULL;
    batch->topic = Py_NewRef(topic);
    batch->partition = partition;
    batch->leader_epoch = leader_epoch;
    batch->timestamp_type = timestamp_type;
    return batch;
}

static PyObject *record_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"topic",  "partition", "offset",  "timestamp_ms",   "key",
                            "value", "headers",   "timestamp_type", "leader_epoch", NULL};
    PyObject *topic, *key, *value, *headers = NULL;
    long partition, leader_epoch = -1;
    long long offset, timestamp_ms;
    int timestamp_type = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OlLLOO|Oil:FetchedRecord", names, &topic, &partition,
                                     &offset, &timestamp_ms, &key, &value, &headers, &timestamp_type, &leader_epoch))
        return NULL;
    fetched_record *record = (fetched_record *)allocate_record(type, 0);
    if (record == NULL)
        return NULL;
    record->batch = new_batch(topic, partition, leader_epoch, timestamp_type);
    record->offset = offset;
    record->timestamp_ms = timestamp_ms;
    record->key = Py_NewRef(key);
    record->value = Py_NewRef(value);
    record->headers = headers != NULL ? Py_NewRef(headers) : PyTuple_New(0);
    if (record->batch == NULL || record->headers == NULL) {
        Py_DECREF(record);
        return NULL;
    }
    return (PyObject *)record;
}

static void record_dealloc(fetched_record *record)
{
    PyTypeObject *type = Py_TYPE((PyObject *)record);
    Py_XDECREF(record->key);
    Py_XDECREF(record->value);
    Py_XDECREF(record->headers);
    release_batch(record->batch);
    PyObject_Free(record);
    Py_DECREF(type);
}

static PyObject *bytes_at(const fetched_record *record, uint32_t position, int32_t size)
{
    if (size < 0)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize((const char *)record->batch->data + position, size);
}

static PyObject *record_get_key(fetched_record *record, void *unused)
{
    if (record->key == NULL)
        record->key = bytes_at(record, record->key_position, record->key_bytes);
    return Py_XNewRef(record->key);
}

static PyObject *record_get_value(fetched_record *record, void *unused)
{
    if (record->value == NULL)
        record->value = bytes_at(record, record->value_position, record->value_bytes);
    return Py_XNewRef(record->value);
}

static PyObject *make_headers(const fetched_record *record)
{
    PyObject *headers = PyTuple_New(record->header_count);
    if (headers == NULL || record->header_count == 0)
        return headers;
    const uint8_t *at = record->batch->data + record->headers_position;
    const uint8_t *end = record->batch->data + PyBytes_Size(record->batch->body);
    for (uint32_t index = 0; index < record->header_count; index++) {
        const uint8_t *key, *value;
        int64_t key_bytes, value_bytes;
        if (!kernel_read_header(&at, end, &key, &key_bytes, &value, &value_bytes)) {
            PyErr_SetString(corrupt_batch, "headers changed since they were checked");
            goto failed;
        }
        /* As in Java: a key that is not UTF-8 doesn't make the record unreadable. */
        PyObject *name = PyUnicode_DecodeUTF8((const char *)key, (Py_ssize_t)key_bytes, "replace");
        PyObject *data = value_bytes < 0 ? Py_NewRef(Py_None)
                                         : PyBytes_FromStringAndSize((const char *)value, (Py_ssize_t)value_bytes);
        PyObject *pair = name != NULL && data != NULL ? PyTuple_Pack(2, name, data) : NULL;
        Py_XDECREF(name);
        Py_XDECREF(data);
        if (pair == NULL)
            goto failed;
        PyTuple_SetItem(headers, (Py_ssize_t)index, pair);
    }
    return headers;
failed:
    Py_DECREF(headers);
    return NULL;
}

static PyObject *record_get_headers(fetched_record *record, void *unused)
{
    if (record->headers == NULL)
        record->headers = make_headers(record);
    return Py_XNewRef(record->headers);
}

static int set_field(PyObject **field, PyObject *value)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a field of a record can be set, not deleted");
        return -1;
    }
    PyObject *before = *field;
    *field = Py_NewRef(value);
    Py_XDECREF(before);
    return 0;
}

static int record_set_key(fetched_record *record, PyObject *value, void *unused)
{
    return set_field(&record->key, value);
}

static int record_set_value(fetched_record *record, PyObject *value, void *unused)
{
    return set_field(&record->value, value);
}

static int record_set_headers(fetched_record *record, PyObject *value, void *unused)
{
    return set_field(&record->headers, value);
}

static PyObject *record_get_topic(fetched_record *record, void *unused)
{
    return Py_NewRef(record->batch->topic);
}

static PyObject *record_get_partition(fetched_record *record, void *unused)
{
    return PyLong_FromLong(record->batch->partition);
}

static PyObject *record_get_timestamp_type(fetched_record *record, void *unused)
{
    return PyLong_FromLong(record->batch->timestamp_type);
}

static PyObject *record_get_leader_epoch(fetched_record *record, void *unused)
{
    return PyLong_FromLong(record->batch->leader_epoch);
}

/* All fields as the constructor takes them. */
static PyObject *record_fields(fetched_record *record)
{
    PyObject *key = record_get_key(record, NULL);
    PyObject *value = record_get_value(record, NULL);
    PyObject *headers = record_get_headers(record, NULL);
    PyObject *fields = NULL;
    if (key != NULL && value != NULL && headers != NULL)
        fields = Py_BuildValue("(OlLLOOOil)", record->batch->topic, record->batch->partition, (long long)record->offset,
                               (long long)record->timestamp_ms, key, value, headers, record->batch->timestamp_type,
                               record->batch->leader_epoch);
    Py_XDECREF(key);
    Py_XDECREF(value);
    Py_XDECREF(headers);
    return fields;
}

static PyObject *record_reduce(fetched_record *record, PyObject *unused)
{
    PyObject *fields = record_fields(record);
    return fields == NULL ? NULL : Py_BuildValue("(ON)", (PyObject *)fetched_record_type, fields);
}

static PyObject *record_repr(fetched_record *record)
{
    PyObject *fields = record_fields(record);
    if (fields == NULL)
        return NULL;
    PyObject *text = PyUnicode_FromFormat("FetchedRecord%R", fields);
    Py_DECREF(fields);
    return text;
}

static PyGetSetDef record_getset[] = {
    {"topic", (getter)record_get_topic, NULL, NULL, NULL},
    {"partition", (getter)record_get_partition, NULL, NULL, NULL},
    {"timestamp_type", (getter)record_get_timestamp_type, NULL, NULL, NULL},
    {"leader_epoch", (getter)record_get_leader_epoch, NULL, NULL, NULL},
    {"key", (getter)record_get_key, (setter)record_set_key, NULL, NULL},
    {"value", (getter)record_get_value, (setter)record_set_value, NULL, NULL},
    {"headers", (getter)record_get_headers, (setter)record_set_headers, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef record_members[] = {
    {"offset", T_LONGLONG, offsetof(fetched_record, offset), READONLY, NULL},
    {"timestamp_ms", T_LONGLONG, offsetof(fetched_record, timestamp_ms), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef record_methods[] = {
    {"__reduce__", (PyCFunction)record_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot record_slots[] = {
    {Py_tp_doc, "One record of a fetch; its fields are made of bytes when they are looked at."},
    {Py_tp_new, record_new},
    {Py_tp_dealloc, record_dealloc},
    {Py_tp_repr, record_repr},
    {Py_tp_getset, record_getset},
    {Py_tp_members, record_members},
    {Py_tp_methods, record_methods},
    {0, NULL},
};

static PyType_Spec record_spec = {
    .name = "ottla.records._kernel.FetchedRecord",
    .basicsize = sizeof(fetched_record),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = record_slots,
};

/* split_records(body, topic, partition, leader_epoch, <view>) -> list of FetchedRecord */
static PyObject *split_records(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 4 + VIEW_ARGUMENTS || !PyBytes_Check(arguments[0]) || !PyUnicode_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "split_records takes bytes, a topic, and nine numbers of the batch's header");
        return NULL;
    }
    kernel_batch_view view;
    long partition = PyLong_AsLong(arguments[2]);
    long leader_epoch = PyLong_AsLong(arguments[3]);
    if (PyErr_Occurred() || !read_view(arguments + 4, &view))
        return NULL;
    size_t body_bytes = (size_t)PyBytes_Size(arguments[0]);
    const char *fault = kernel_check_view(&view, body_bytes);
    if (fault == NULL && body_bytes > INT32_MAX)
        fault = "a batch of more than 2 GiB";
    if (fault != NULL)
        return raise_fault(fault, &view);
    shared_batch *batch = new_batch(arguments[1], partition, leader_epoch, view.has_append_time);
    PyObject *records = PyList_New(0);
    if (batch == NULL || records == NULL)
        goto failed;
    batch->body = Py_NewRef(arguments[0]);
    batch->data = (const uint8_t *)PyBytes_AsString(arguments[0]);
    const uint8_t *at = batch->data;
    const uint8_t *end = at + body_bytes;
    int64_t previous_delta = -1;
    for (int64_t index = 0; index < view.record_count; index++) {
        kernel_record read;
        fault = kernel_read_record(&at, end, &read);
        if (fault == NULL && (read.offset_delta <= previous_delta || read.offset_delta > view.last_offset_delta))
            fault = "an offset delta out of order";
        if (fault != NULL)
            goto faulty;
        previous_delta = read.offset_delta;
        int64_t offset = view.base_offset + read.offset_delta;
        if (offset < view.from_offset || offset >= view.to_offset)
            continue;
        fetched_record *record = (fetched_record *)allocate_record(fetched_record_type, 0); /* zeroed */
        if (record == NULL)
            goto failed;
        batch->references++;
        record->batch = batch;
        record->offset = offset;
        record->timestamp_ms = kernel_timestamp_ms(&view, &read);
        record->key_bytes = (int32_t)read.key_bytes;
        record->key_position = (uint32_t)(read.key - batch->data);
        record->value_bytes = (int32_t)read.value_bytes;
        record->value_position = (uint32_t)(read.value - batch->data);
        record->headers_position = (uint32_t)(read.headers - batch->data);
        record->header_count = (uint32_t)read.header_count;
        int is_failed = PyList_Append(records, (PyObject *)record);
        Py_DECREF(record);
        if (is_failed)
            goto failed;
    }
    if (at == end) {
        release_batch(batch);
        return records;
    }
    fault = "bytes after the last record";
faulty:
    raise_fault(fault, &view);
failed:
    release_batch(batch);
    Py_XDECREF(records);
    return NULL;
}

#endif
