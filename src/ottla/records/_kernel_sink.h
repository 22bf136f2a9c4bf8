/* ColumnSink: the records of batches as Arrow buffers; OwnedBuffer: such a buffer, which Arrow keeps alive. */
#ifndef OTTLA_KERNEL_SINK_H
#define OTTLA_KERNEL_SINK_H

#include "_kernel_module.h"

/* Memory of released columns, reused for the next ones: `malloc` would map and unmap it page by page, which takes
 * longer than filling it. Used under the interpreter's lock only. */
#define SPARE_BLOCKS 16
#define SPARE_BLOCK_BYTES_MIN ((size_t)1024)
#define SPARE_BLOCK_BYTES_MAX ((size_t)2 * 1024 * 1024)
#define SPARE_BYTES_MAX ((size_t)8 * 1024 * 1024)

static kernel_bytes spare_blocks[SPARE_BLOCKS];
static size_t spare_bytes;

/* Give empty bytes room for `size`, from a spare block that is not far too large; a later call retries a failure. */
static void take_block(kernel_bytes *bytes, size_t size)
{
    if (bytes->data != NULL || size == 0)
        return;
    int best = -1;
    for (int index = 0; index < SPARE_BLOCKS; index++) {
        size_t capacity = spare_blocks[index].capacity;
        if (capacity >= size && capacity / 2 <= size && (best < 0 || capacity < spare_blocks[best].capacity))
            best = index;
    }
    if (best >= 0) {
        *bytes = spare_blocks[best];
        memset(&spare_blocks[best], 0, sizeof spare_blocks[best]);
        spare_bytes -= bytes->capacity;
    } else if (size <= SIZE_MAX / 4) {
        kernel_reserve(bytes, size);
    }
}

/* Keep the memory as a spare block if there is room for one more, else free it; `bytes` is empty afterwards. */
static void give_block(kernel_bytes *bytes)
{
    size_t capacity = bytes->capacity;
    if (capacity >= SPARE_BLOCK_BYTES_MIN && capacity <= SPARE_BLOCK_BYTES_MAX) {
        for (int index = 0; index < SPARE_BLOCKS; index++) {
            kernel_bytes *spare = &spare_blocks[index];
            if (spare->data == NULL && spare_bytes + capacity <= SPARE_BYTES_MAX) {
                *spare = *bytes;
                spare->size = 0;
                spare_bytes += capacity;
                memset(bytes, 0, sizeof *bytes);
                return;
            }
        }
        /* Full, perhaps of blocks of a size that is no longer needed. */
        static unsigned int turn;
        kernel_bytes *spare = &spare_blocks[turn++ % SPARE_BLOCKS];
        spare_bytes -= spare->capacity;
        kernel_release(spare);
    }
    kernel_release(bytes);
}

typedef struct {
    PyObject_HEAD
    kernel_bytes bytes;
} owned_buffer;

static PyTypeObject *owned_buffer_type;

static void buffer_dealloc(owned_buffer *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    give_block(&self->bytes);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int buffer_get(owned_buffer *self, Py_buffer *view, int flags)
{
    static uint8_t nothing[8];
    void *data = self->bytes.data != NULL ? self->bytes.data : nothing;
    return PyBuffer_FillInfo(view, (PyObject *)self, data, (Py_ssize_t)self->bytes.size, 1, flags);
}

static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, "Memory that a column lies in."},
    {Py_tp_dealloc, buffer_dealloc},
    {Py_bf_getbuffer, buffer_get},
    {0, NULL},
};

static PyType_Spec buffer_spec = {
    .name = "ottla.records._kernel.OwnedBuffer",
    .basicsize = sizeof(owned_buffer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = buffer_slots,
};

/* Takes over the memory; `bytes` is empty afterwards. Unused memory is freed. */
static PyObject *own_bytes(kernel_bytes *bytes)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(owned_buffer_type, Py_tp_alloc);
    owned_buffer *self = (owned_buffer *)allocate(owned_buffer_type, 0);
    if (self == NULL)
        return NULL;
    if (bytes->size == 0) {
        give_block(bytes);
    } else if (bytes->capacity / 2 > bytes->size) {
        uint8_t *data = realloc(bytes->data, bytes->size);
        if (data != NULL) {
            bytes->data = data;
            bytes->capacity = bytes->size;
        }
    }
    self->bytes = *bytes;
    memset(bytes, 0, sizeof *bytes);
    return (PyObject *)self;
}

typedef struct {
    PyObject_HEAD
    kernel_sink sink;
    int is_busy;
} column_sink;

static PyObject *sink_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"with_headers", NULL};
    int with_headers;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "p:ColumnSink", names, &with_headers))
        return NULL;
    column_sink *self = (column_sink *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL)
        self->sink.with_headers = with_headers;
    return (PyObject *)self;
}

static void sink_dealloc(column_sink *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    kernel_release_sink(&self->sink);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* reserve(bytes, records): the size of the next batches, so that columns need not grow. The numbers come from the
 * batches' own headers: they are checked against the bytes, and missing memory is allocated when it is needed. */
static PyObject *sink_reserve(column_sink *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "reserve takes bytes and records");
        return NULL;
    }
    long long body_bytes = PyLong_AsLongLong(arguments[0]);
    long long records = PyLong_AsLongLong(arguments[1]);
    if (PyErr_Occurred() != NULL)
        return NULL;
    if (self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "the columns are being filled by another thread");
        return NULL;
    }
    if (body_bytes > 0 && body_bytes <= INT32_MAX) {
        size_t data_bytes = (size_t)body_bytes;
        size_t most = data_bytes / KERNEL_MIN_RECORD_BYTES;
        size_t values = records < 0 ? 0 : (uint64_t)records > most ? most : (size_t)records;
        kernel_sink *sink = &self->sink;
        take_block(&sink->record_offsets, values * sizeof(int64_t));
        take_block(&sink->timestamps_us, values * sizeof(int64_t));
        take_block(&sink->key.offsets, (values + 1) * sizeof(int32_t));
        take_block(&sink->key.validity, values / 8 + 1);
        take_block(&sink->key.data, data_bytes);
        take_block(&sink->value.offsets, (values + 1) * sizeof(int32_t));
        take_block(&sink->value.validity, values / 8 + 1);
        take_block(&sink->value.data, data_bytes);
    }
    Py_RETURN_NONE;
}

/* append(body, <view>) -> records added */
static PyObject *sink_append(column_sink *self, PyObject *const *arguments, Py_ssize_t count)
{
    kernel_batch_view view;
    Py_buffer body;
    if (count != 1 + VIEW_ARGUMENTS) {
        PyErr_SetString(PyExc_TypeError, "append takes a batch's body and seven numbers of its header");
        return NULL;
    }
    if (self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "the columns are being filled by another thread");
        return NULL;
    }
    if (!read_view(arguments + 1, &view) || PyObject_GetBuffer(arguments[0], &body, PyBUF_SIMPLE) < 0)
        return NULL;
    static const uint8_t nothing[1];
    const uint8_t *data = body.buf != NULL ? body.buf : nothing;
    int64_t before = self->sink.count;
    const char *fault;
    self->is_busy = 1;
    PyThreadState *thread = body.len >= UNLOCKED_BYTES ? PyEval_SaveThread() : NULL;
    fault = kernel_sink_append(&self->sink, data, (size_t)body.len, &view);
    if (thread != NULL)
        PyEval_RestoreThread(thread);
    self->is_busy = 0;
    PyBuffer_Release(&body);
    if (fault != NULL)
        return raise_fault(fault, &view);
    return PyLong_FromLongLong(self->sink.count - before);
}

/* (validity or None, offsets, data) */
static PyObject *own_column(kernel_column *column)
{
    PyObject *validity = column->null_count > 0 ? own_bytes(&column->validity) : Py_NewRef(Py_None);
    PyObject *offsets = validity != NULL ? own_bytes(&column->offsets) : NULL;
    PyObject *data = offsets != NULL ? own_bytes(&column->data) : NULL;
    if (data == NULL) {
        Py_XDECREF(validity);
        Py_XDECREF(offsets);
        return NULL;
    }
    return Py_BuildValue("(NNN)", validity, offsets, data);
}

/* finish() -> (count, record offsets, timestamps, key, value, header lists or None); the sink is empty afterwards.
 * Header lists are (list offsets, header count, keys, values, whether all keys are ASCII). */
static PyObject *sink_finish(column_sink *self, PyObject *unused)
{
    if (self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "the columns are being filled by another thread");
        return NULL;
    }
    kernel_sink *sink = &self->sink;
    PyObject *headers = NULL, *fields = NULL;
    PyObject *record_offsets = own_bytes(&sink->record_offsets);
    PyObject *timestamps = own_bytes(&sink->timestamps_us);
    PyObject *key = own_column(&sink->key);
    PyObject *value = own_column(&sink->value);
    if (sink->with_headers) {
        PyObject *list_offsets = own_bytes(&sink->list_offsets);
        PyObject *header_key = own_column(&sink->header_key);
        PyObject *header_value = own_column(&sink->header_value);
        if (list_offsets != NULL && header_key != NULL && header_value != NULL)
            headers = Py_BuildValue("(OLOOO)", list_offsets, (long long)sink->header_count, header_key, header_value,
                                    sink->has_non_ascii_header_keys ? Py_False : Py_True);
        Py_XDECREF(list_offsets);
        Py_XDECREF(header_key);
        Py_XDECREF(header_value);
    } else {
        headers = Py_NewRef(Py_None);
    }
    if (record_offsets != NULL && timestamps != NULL && key != NULL && value != NULL && headers != NULL)
        fields = Py_BuildValue("(LOOOOO)", (long long)sink->count, record_offsets, timestamps, key, value, headers);
    Py_XDECREF(record_offsets);
    Py_XDECREF(timestamps);
    Py_XDECREF(key);
    Py_XDECREF(value);
    Py_XDECREF(headers);
    kernel_release_sink(sink); /* the buffers that were not taken, and the counts */
    return fields;
}

static PyObject *sink_get_data_bytes(column_sink *self, void *unused)
{
    const kernel_sink *sink = &self->sink;
    return PyLong_FromSize_t(sink->key.data.size + sink->value.data.size + sink->header_key.data.size +
                             sink->header_value.data.size);
}

static PyGetSetDef sink_getset[] = {
    {"data_bytes", (getter)sink_get_data_bytes, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef sink_members[] = {
    {"count", T_LONGLONG, offsetof(column_sink, sink.count), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef sink_methods[] = {
    {"append", (PyCFunction)(void (*)(void))sink_append, METH_FASTCALL, NULL},
    {"reserve", (PyCFunction)(void (*)(void))sink_reserve, METH_FASTCALL, NULL},
    {"finish", (PyCFunction)sink_finish, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sink_slots[] = {
    {Py_tp_doc, "Columns that grow batch by batch; ottla/columns has their face."},
    {Py_tp_new, sink_new},
    {Py_tp_dealloc, sink_dealloc},
    {Py_tp_getset, sink_getset},
    {Py_tp_members, sink_members},
    {Py_tp_methods, sink_methods},
    {0, NULL},
};

static PyType_Spec sink_spec = {
    .name = "ottla.records._kernel.ColumnSink",
    .basicsize = sizeof(column_sink),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = sink_slots,
};

#endif
