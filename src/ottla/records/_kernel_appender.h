/* Appender: a batch that grows record by record, or by the rows of Arrow columns. */
#ifndef OTTLA_KERNEL_APPENDER_H
#define OTTLA_KERNEL_APPENDER_H

#include "_kernel_module.h"

typedef struct {
    PyObject_HEAD
    kernel_batch batch;
    kernel_bytes block; /* the encoded headers of one record, reused */
    int is_busy;        /* append_rows runs without the interpreter's lock */
} appender;

static PyObject *appender_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"limit_bytes", NULL};
    Py_ssize_t limit_bytes;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "n:Appender", names, &limit_bytes))
        return NULL;
    if (limit_bytes < 0) {
        PyErr_Format(PyExc_ValueError, "a limit of %zd bytes", limit_bytes);
        return NULL;
    }
    appender *self = (appender *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        self->batch.limit_bytes = (size_t)limit_bytes;
        self->batch.base_timestamp_ms = self->batch.max_timestamp_ms = -1;
    }
    return (PyObject *)self;
}

static void appender_dealloc(appender *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    kernel_release(&self->batch.records);
    kernel_release(&self->block);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int appender_is_free(const appender *self)
{
    if (self->is_busy)
        PyErr_SetString(PyExc_RuntimeError, "the batch is being filled by another thread");
    return !self->is_busy;
}

/* The bytes of a key or value; the caller releases `view` if its `obj` is not NULL. */
static int take_bytes(PyObject *object, const uint8_t **data, int64_t *size, Py_buffer *view)
{
    view->obj = NULL;
    if (object == Py_None) {
        *data = NULL;
        *size = -1;
        return 1;
    }
    if (PyBytes_Check(object)) {
        *data = (const uint8_t *)PyBytes_AsString(object);
        *size = PyBytes_Size(object);
        return 1;
    }
    if (PyObject_GetBuffer(object, view, PyBUF_SIMPLE) < 0)
        return 0;
    *data = view->buf;
    *size = view->len;
    return 1;
}

static void release_view(Py_buffer *view)
{
    if (view->obj != NULL)
        PyBuffer_Release(view);
}

static int add_header(kernel_bytes *block, PyObject *pair)
{
    PyObject *name = PySequence_GetItem(pair, 0);
    PyObject *object = name != NULL ? PySequence_GetItem(pair, 1) : NULL;
    Py_ssize_t key_bytes;
    const char *key = object != NULL ? PyUnicode_AsUTF8AndSize(name, &key_bytes) : NULL;
    const uint8_t *value;
    int64_t value_bytes;
    Py_buffer view;
    int is_done = 0;
    if (key != NULL && take_bytes(object, &value, &value_bytes, &view)) {
        is_done = kernel_put_header(block, (const uint8_t *)key, (size_t)key_bytes, value, value_bytes);
        if (!is_done)
            PyErr_NoMemory();
        release_view(&view);
    }
    Py_XDECREF(name);
    Py_XDECREF(object);
    return is_done;
}

static int encode_headers(kernel_bytes *block, PyObject *headers)
{
    Py_ssize_t count = PySequence_Size(headers);
    if (count < 0)
        return 0;
    block->size = 0;
    if (!kernel_reserve(block, KERNEL_MAX_VARINT_BYTES)) {
        PyErr_NoMemory();
        return 0;
    }
    kernel_put_varint(block, count);
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *pair = PySequence_GetItem(headers, index);
        int is_done = pair != NULL && add_header(block, pair);
        Py_XDECREF(pair);
        if (!is_done)
            return 0;
    }
    return 1;
}

/* append(timestamp_ms, key, value, headers=()) -> index of the record, -1 when the batch is full */
static PyObject *appender_append(appender *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 3 && count != 4) {
        PyErr_SetString(PyExc_TypeError, "append takes a timestamp, a key, a value, and headers or none");
        return NULL;
    }
    int64_t timestamp_ms = PyLong_AsLongLong(arguments[0]);
    if (timestamp_ms == -1 && PyErr_Occurred())
        return NULL;
    Py_buffer key_view, value_view;
    const uint8_t *key, *value, *headers = (const uint8_t *)"";
    int64_t key_bytes, value_bytes;
    size_t headers_bytes = 1; /* the count, 0 */
    if (!appender_is_free(self) || !take_bytes(arguments[1], &key, &key_bytes, &key_view))
        return NULL;
    if (!take_bytes(arguments[2], &value, &value_bytes, &value_view)) {
        release_view(&key_view);
        return NULL;
    }
    int outcome = KERNEL_NO_MEMORY;
    int is_ready = 1;
    if (count == 4) {
        /* Reading the sequence may run the caller's code: nothing else may use the block meanwhile. */
        self->is_busy = 1;
        is_ready = encode_headers(&self->block, arguments[3]);
        self->is_busy = 0;
        headers = self->block.data;
        headers_bytes = self->block.size;
    }
    if (is_ready)
        outcome = kernel_append_record(&self->batch, timestamp_ms, key, key_bytes, value, value_bytes, headers,
                                       headers_bytes);
    release_view(&key_view);
    release_view(&value_view);
    if (!is_ready)
        return NULL;
    switch (outcome) {
    case KERNEL_APPENDED:
        return PyLong_FromLongLong(self->batch.record_count - 1);
    case KERNEL_FULL:
        return PyLong_FromLong(-1);
    case KERNEL_TOO_LARGE:
        PyErr_SetString(PyExc_OverflowError, "a record batch of more than 2 GiB");
        return NULL;
    default:
        return PyErr_NoMemory();
    }
}

/* ---- rows of columns ---- */

enum { VIEWS_MAX = 16 };

typedef struct {
    Py_buffer views[VIEWS_MAX];
    int count;
} held_views;

static void release_views(held_views *held)
{
    while (held->count > 0)
        PyBuffer_Release(&held->views[--held->count]);
}

static const Py_buffer *hold_view(held_views *held, PyObject *object)
{
    static const uint8_t nothing[8];
    Py_buffer *view = &held->views[held->count];
    if (held->count == VIEWS_MAX || PyObject_GetBuffer(object, view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (view->buf == NULL)
        view->buf = (void *)nothing; /* an empty buffer may be NULL, and C allows no arithmetic on that */
    held->count++;
    return view;
}

/* PyArg_ParseTuple reports anything but a tuple as a bug of ours. */
static int is_tuple(PyObject *object)
{
    if (PyTuple_Check(object))
        return 1;
    PyErr_SetString(PyExc_TypeError, "expected a column as a tuple of its buffers");
    return 0;
}

/* (offsets, data or None, validity or None, first, count) as `kernel_values`; None stands for a column of nulls. */
static int take_values(held_views *held, PyObject *object, kernel_values *values, size_t count)
{
    PyObject *offsets, *data, *validity;
    Py_ssize_t first, length;
    if (!is_tuple(object) || !PyArg_ParseTuple(object, "OOOnn", &offsets, &data, &validity, &first, &length))
        return 0;
    memset(values, 0, sizeof *values);
    const Py_buffer *view = hold_view(held, offsets);
    if (view == NULL)
        return 0;
    values->offsets = view->buf;
    values->offset_count = (size_t)view->len / sizeof(int32_t);
    if (data != Py_None) {
        if ((view = hold_view(held, data)) == NULL)
            return 0;
        values->data = view->buf;
        values->data_bytes = (size_t)view->len;
    }
    if (validity != Py_None) {
        if ((view = hold_view(held, validity)) == NULL)
            return 0;
        values->validity = view->buf;
        values->validity_bytes = (size_t)view->len;
    }
    values->first = (size_t)first;
    values->count = (size_t)length;
    if (first < 0 || length < 0 || (size_t)length < count ||
        !kernel_values_are_whole(values->offset_count, values->validity, values->validity_bytes, values->first,
                                 values->count)) {
        PyErr_SetString(PyExc_ValueError, "an array is longer than its buffers");
        return 0;
    }
    return 1;
}

static int take_headers(held_views *held, PyObject *object, kernel_header_lists *headers, size_t count)
{
    PyObject *lists, *keys, *values;
    return is_tuple(object) && PyArg_ParseTuple(object, "OOO", &lists, &keys, &values) &&
           take_values(held, lists, &headers->lists, count) && take_values(held, keys, &headers->keys, 0) &&
           take_values(held, values, &headers->values, 0);
}

/* append_rows(rows int64, first, timestamps_ms int64, key or None, value or None, headers or None) -> first row left */
static PyObject *appender_append_rows(appender *self, PyObject *arguments)
{
    PyObject *rows_object, *timestamps_object, *key_object, *value_object, *headers_object;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(arguments, "OnOOOO:append_rows", &rows_object, &first, &timestamps_object, &key_object,
                          &value_object, &headers_object) ||
        !appender_is_free(self))
        return NULL;
    held_views held = {.count = 0};
    kernel_values keys, values;
    kernel_header_lists headers;
    const Py_buffer *rows = hold_view(&held, rows_object);
    const Py_buffer *timestamps = rows != NULL ? hold_view(&held, timestamps_object) : NULL;
    if (timestamps == NULL)
        goto failed;
    size_t row_count = (size_t)rows->len / sizeof(int64_t);
    size_t count = (size_t)timestamps->len / sizeof(int64_t);
    if (first < 0 || (size_t)first > row_count) {
        PyErr_Format(PyExc_ValueError, "row %zd of %zu", first, row_count);
        goto failed;
    }
    if ((key_object != Py_None && !take_values(&held, key_object, &keys, count)) ||
        (value_object != Py_None && !take_values(&held, value_object, &values, count)) ||
        (headers_object != Py_None && !take_headers(&held, headers_object, &headers, count)))
        goto failed;
    size_t at = (size_t)first;
    const char *fault;
    self->is_busy = 1;
    PyThreadState *thread = self->batch.limit_bytes >= UNLOCKED_BYTES ? PyEval_SaveThread() : NULL;
    fault = kernel_append_rows(&self->batch, &self->block, rows->buf, row_count, &at, timestamps->buf, count,
                               key_object != Py_None ? &keys : NULL, value_object != Py_None ? &values : NULL,
                               headers_object != Py_None ? &headers : NULL);
    if (thread != NULL)
        PyEval_RestoreThread(thread);
    self->is_busy = 0;
    release_views(&held);
    if (fault == KERNEL_OUT_OF_MEMORY)
        return PyErr_NoMemory();
    if (fault != NULL)
        return PyErr_Format(PyExc_ValueError, "row %zu: %s", at, fault);
    return PyLong_FromSize_t(at);
failed:
    release_views(&held);
    return NULL;
}

static PyObject *appender_records(appender *self, PyObject *unused)
{
    if (!appender_is_free(self))
        return NULL;
    return PyBytes_FromStringAndSize((const char *)self->batch.records.data, (Py_ssize_t)self->batch.records.size);
}

static PyObject *appender_get_size_bytes(appender *self, void *unused)
{
    return PyLong_FromSize_t(KERNEL_BATCH_HEADER_BYTES + self->batch.records.size);
}

static PyObject *appender_get_limit_bytes(appender *self, void *unused)
{
    return PyLong_FromSize_t(self->batch.limit_bytes);
}

static PyGetSetDef appender_getset[] = {
    {"size_bytes", (getter)appender_get_size_bytes, NULL, NULL, NULL},
    {"limit_bytes", (getter)appender_get_limit_bytes, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef appender_members[] = {
    {"record_count", T_LONGLONG, offsetof(appender, batch.record_count), READONLY, NULL},
    {"base_timestamp_ms", T_LONGLONG, offsetof(appender, batch.base_timestamp_ms), READONLY, NULL},
    {"max_timestamp_ms", T_LONGLONG, offsetof(appender, batch.max_timestamp_ms), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef appender_methods[] = {
    {"append", (PyCFunction)(void (*)(void))appender_append, METH_FASTCALL, NULL},
    {"append_rows", (PyCFunction)appender_append_rows, METH_VARARGS, NULL},
    {"records", (PyCFunction)appender_records, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot appender_slots[] = {
    {Py_tp_doc, "The records of a batch in the making; records/appender.py has its face."},
    {Py_tp_new, appender_new},
    {Py_tp_dealloc, appender_dealloc},
    {Py_tp_getset, appender_getset},
    {Py_tp_members, appender_members},
    {Py_tp_methods, appender_methods},
    {0, NULL},
};

static PyType_Spec appender_spec = {
    .name = "ottla.records._kernel.Appender",
    .basicsize = sizeof(appender),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = appender_slots,
};

#endif
