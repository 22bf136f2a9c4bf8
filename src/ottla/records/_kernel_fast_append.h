/* FastAppend: appends a record to the open batch of its partition, in one C call, for a producer's `send`.
 *
 * It serves the common call (a known topic, bytes or None, a batch with room) and passes every other call on to Python,
 * with the same arguments. A call holds the interpreter's lock from the look at the open batch until the record is in
 * it, and one assignment to `PartitionSlot.open` closes a batch: so no other lock is needed. */
#ifndef OTTLA_KERNEL_FAST_APPEND_H
#define OTTLA_KERNEL_FAST_APPEND_H

#include <time.h>

#include "_kernel_appender.h"

static PyTypeObject *appender_type, *partition_slot_type, *topic_slots_type;
static PyObject *name_appender, *name_key, *name_value;

#define FREE(self, type)                                                                                               \
    do {                                                                                                               \
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);                                                            \
        Py_DECREF(type);                                                                                               \
    } while (0)

/* ---- PartitionSlot: one partition; `send` appends to the batch `open`, which may be None ---- */

typedef struct {
    PyObject_HEAD
    PyObject *open;
    appender *appender; /* that of `open` */
} partition_slot;

static int partition_slot_traverse(partition_slot *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->open);
    Py_VISIT((PyObject *)self->appender);
    return 0;
}

static int partition_slot_clear(partition_slot *self)
{
    Py_CLEAR(self->open);
    Py_CLEAR(self->appender);
    return 0;
}

static void partition_slot_dealloc(partition_slot *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    partition_slot_clear(self);
    FREE(self, type);
}

static PyObject *partition_slot_get_open(partition_slot *self, void *unused)
{
    return Py_NewRef(self->open != NULL ? self->open : Py_None);
}

static int partition_slot_set_open(partition_slot *self, PyObject *batch, void *unused)
{
    PyObject *filled = NULL;
    if (batch == Py_None)
        batch = NULL;
    if (batch != NULL) {
        filled = PyObject_GetAttr(batch, name_appender);
        if (filled == NULL)
            return -1;
        if (!PyObject_TypeCheck(filled, appender_type)) {
            PyErr_SetString(PyExc_TypeError, "the appender of a batch is expected to be the kernel's");
            Py_DECREF(filled);
            return -1;
        }
    }
    PyObject *old_open = self->open;
    appender *old_appender = self->appender;
    Py_XINCREF(batch);
    self->open = batch;
    self->appender = (appender *)filled;
    Py_XDECREF(old_open);
    Py_XDECREF((PyObject *)old_appender);
    return 0;
}

static PyGetSetDef partition_slot_getset[] = {
    {"open", (getter)partition_slot_get_open, (setter)partition_slot_set_open, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot partition_slot_slots[] = {
    {Py_tp_doc, "A partition that a producer sends to; clients/producer/queues.py derives from it."},
    {Py_tp_dealloc, partition_slot_dealloc},
    {Py_tp_traverse, partition_slot_traverse},
    {Py_tp_clear, partition_slot_clear},
    {Py_tp_getset, partition_slot_getset},
    {0, NULL},
};

static PyType_Spec partition_slot_spec = {
    .name = "ottla.records._kernel.PartitionSlot",
    .basicsize = sizeof(partition_slot),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = partition_slot_slots,
};

/* ---- TopicSlots: the partitions of a topic, and the sticky one for records without a key ---- */

typedef struct {
    PyObject_HEAD
    PyObject *queues; /* a list of PartitionSlot */
    PyObject *sticky; /* a PartitionSlot or None */
    char ignores_keys;
} topic_slots;

static int topic_slots_traverse(topic_slots *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->queues);
    Py_VISIT(self->sticky);
    return 0;
}

static int topic_slots_clear(topic_slots *self)
{
    Py_CLEAR(self->queues);
    Py_CLEAR(self->sticky);
    return 0;
}

static void topic_slots_dealloc(topic_slots *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    topic_slots_clear(self);
    FREE(self, type);
}

static PyMemberDef topic_slots_members[] = {
    {"queues", T_OBJECT, offsetof(topic_slots, queues), 0, NULL},
    {"sticky", T_OBJECT, offsetof(topic_slots, sticky), 0, NULL},
    {"ignores_keys", T_BOOL, offsetof(topic_slots, ignores_keys), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot topic_slots_slots[] = {
    {Py_tp_doc, "The partitions of a topic; clients/producer/queues.py derives from it."},
    {Py_tp_dealloc, topic_slots_dealloc},
    {Py_tp_traverse, topic_slots_traverse},
    {Py_tp_clear, topic_slots_clear},
    {Py_tp_members, topic_slots_members},
    {0, NULL},
};

static PyType_Spec topic_slots_spec = {
    .name = "ottla.records._kernel.TopicSlots",
    .basicsize = sizeof(topic_slots),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = topic_slots_slots,
};

/* ---- Delivery: what `send` returns: a batch, and the record's index in it ---- */

typedef struct {
    PyObject_HEAD
    PyObject *batch;
    long long index;
    long long timestamp_ms;
} delivery;

static PyObject *delivery_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *batch;
    long long index, timestamp_ms;
    if (!PyArg_ParseTuple(arguments, "OLL:Delivery", &batch, &index, &timestamp_ms))
        return NULL;
    delivery *self = (delivery *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        self->batch = Py_NewRef(batch);
        self->index = index;
        self->timestamp_ms = timestamp_ms;
    }
    return (PyObject *)self;
}

static void delivery_dealloc(delivery *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->batch);
    FREE(self, type);
}

static PyMemberDef delivery_members[] = {
    {"_batch", T_OBJECT_EX, offsetof(delivery, batch), READONLY, NULL},
    {"_index", T_LONGLONG, offsetof(delivery, index), READONLY, NULL},
    {"_timestamp_ms", T_LONGLONG, offsetof(delivery, timestamp_ms), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot delivery_slots[] = {
    {Py_tp_doc, "One record of a batch; clients/producer/handle.py derives from it."},
    {Py_tp_new, delivery_new},
    {Py_tp_dealloc, delivery_dealloc},
    {Py_tp_members, delivery_members},
    {0, NULL},
};

static PyType_Spec delivery_spec = {
    .name = "ottla.records._kernel.Delivery",
    .basicsize = sizeof(delivery),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = delivery_slots,
};

static PyTypeObject *delivery_type;

/* ---- FastAppend ---- */

typedef struct {
    PyObject_HEAD
    PyObject *topics; /* a dict of TopicSlots by name */
    PyTypeObject *handle_type;
    allocfunc allocate_handle;
    PyObject *slow; /* takes the calls that FastAppend doesn't serve */
} fast_append;

static PyObject *fast_append_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *topics, *handle_type, *slow;
    if (!PyArg_ParseTuple(arguments, "O!O!O:FastAppend", &PyDict_Type, &topics, &PyType_Type, &handle_type, &slow))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)handle_type, delivery_type)) {
        PyErr_SetString(PyExc_TypeError, "a subclass of Delivery is expected");
        return NULL;
    }
    fast_append *self = (fast_append *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        self->topics = Py_NewRef(topics);
        self->handle_type = (PyTypeObject *)Py_NewRef(handle_type);
        self->allocate_handle = (allocfunc)PyType_GetSlot(self->handle_type, Py_tp_alloc);
        self->slow = Py_NewRef(slow);
    }
    return (PyObject *)self;
}

static int fast_append_traverse(fast_append *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->topics);
    Py_VISIT((PyObject *)self->handle_type);
    Py_VISIT(self->slow);
    return 0;
}

static int fast_append_clear(fast_append *self)
{
    Py_CLEAR(self->topics);
    Py_CLEAR(self->slow);
    return 0;
}

static void fast_append_dealloc(fast_append *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    fast_append_clear(self);
    Py_CLEAR(self->handle_type);
    FREE(self, type);
}

static PyObject *fast_append_call_slow(fast_append *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    PyObject *positional = PyTuple_New(count);
    PyObject *named = names != NULL ? PyDict_New() : NULL;
    if (positional == NULL || (names != NULL && named == NULL))
        goto failed;
    for (Py_ssize_t index = 0; index < count; index++)
        PyTuple_SetItem(positional, index, Py_NewRef(arguments[index]));
    for (Py_ssize_t index = 0; named != NULL && index < PyTuple_Size(names); index++) {
        if (PyDict_SetItem(named, PyTuple_GetItem(names, index), arguments[count + index]) < 0)
            goto failed;
    }
    PyObject *result = PyObject_Call(self->slow, positional, named);
    Py_DECREF(positional);
    Py_XDECREF(named);
    return result;
failed:
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return NULL;
}

/* The slot of a record, borrowed; NULL where Python has to find it. */
static partition_slot *fast_append_slot(fast_append *self, PyObject *topic, PyObject *key)
{
    if (!PyUnicode_Check(topic) || self->topics == NULL)
        return NULL;
    topic_slots *slots = (topic_slots *)PyDict_GetItemWithError(self->topics, topic);
    if (slots == NULL) {
        PyErr_Clear(); /* a topic that can't be compared: the slow path raises that again */
        return NULL;
    }
    if (!PyObject_TypeCheck((PyObject *)slots, topic_slots_type))
        return NULL;
    PyObject *found = slots->sticky;
    if (key != Py_None && !slots->ignores_keys) {
        Py_ssize_t count = slots->queues != NULL && PyList_Check(slots->queues) ? PyList_Size(slots->queues) : 0;
        if (count == 0)
            return NULL;
        uint32_t hash = kernel_murmur2((const uint8_t *)PyBytes_AsString(key), (size_t)PyBytes_Size(key));
        found = PyList_GetItem(slots->queues, (Py_ssize_t)(hash & 0x7FFFFFFF) % count);
    }
    return found != NULL && PyObject_TypeCheck(found, partition_slot_type) ? (partition_slot *)found : NULL;
}

/* send(topic, value=None, key=None, ...) -> a handle */
static PyObject *fast_append_send(fast_append *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    PyObject *value = NULL, *key = NULL;
    if (count < 1 || count > 3)
        goto slow;
    if (count > 1)
        value = arguments[1];
    if (count > 2)
        key = arguments[2];
    Py_ssize_t named = names != NULL ? PyTuple_Size(names) : 0;
    for (Py_ssize_t index = 0; index < named; index++) {
        PyObject *name = PyTuple_GetItem(names, index);
        PyObject **target = name == name_value ? &value : name == name_key ? &key : NULL;
        if (target == NULL || *target != NULL)
            goto slow; /* an argument of the slow path, or a mistake */
        *target = arguments[count + index];
    }
    value = value != NULL ? value : Py_None;
    key = key != NULL ? key : Py_None;
    if ((value != Py_None && !PyBytes_CheckExact(value)) || (key != Py_None && !PyBytes_CheckExact(key)))
        goto slow;
    partition_slot *chosen = fast_append_slot(self, arguments[0], key);
    if (chosen == NULL || chosen->open == NULL || chosen->appender->is_busy)
        goto slow;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t timestamp_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    kernel_batch *batch = &chosen->appender->batch;
    const uint8_t *key_data = key != Py_None ? (const uint8_t *)PyBytes_AsString(key) : NULL;
    const uint8_t *value_data = value != Py_None ? (const uint8_t *)PyBytes_AsString(value) : NULL;
    int outcome = kernel_append_record(batch, timestamp_ms, key_data, key != Py_None ? PyBytes_Size(key) : -1, value_data,
                                       value != Py_None ? PyBytes_Size(value) : -1, (const uint8_t *)"", 1);
    if (outcome != KERNEL_APPENDED)
        goto slow;
    /* From here on the record is in the batch: nothing may run that could close it before the index is taken. */
    int64_t index = batch->record_count - 1;
    PyObject *open = Py_NewRef(chosen->open);
    delivery *handle = (delivery *)self->allocate_handle(self->handle_type, 0);
    if (handle == NULL) {
        Py_DECREF(open);
        return NULL;
    }
    handle->batch = open;
    handle->index = index;
    handle->timestamp_ms = timestamp_ms;
    return (PyObject *)handle;
slow:
    return fast_append_call_slow(self, arguments, count, names);
}

static PyMethodDef fast_append_methods[] = {
    {"send", (PyCFunction)(void (*)(void))fast_append_send, METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot fast_append_slots[] = {
    {Py_tp_doc, "Appends a record to its batch in one C call; clients/producer/fast_append.py says when it exists."},
    {Py_tp_new, fast_append_new},
    {Py_tp_dealloc, fast_append_dealloc},
    {Py_tp_traverse, fast_append_traverse},
    {Py_tp_clear, fast_append_clear},
    {Py_tp_methods, fast_append_methods},
    {0, NULL},
};

static PyType_Spec fast_append_spec = {
    .name = "ottla.records._kernel.FastAppend",
    .basicsize = sizeof(fast_append),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = fast_append_slots,
};

/* Adds the types to the module; 0 with an exception set where that failed. */
static int add_fast_append(PyObject *module, PyTypeObject *(*add_type)(PyObject *, PyType_Spec *, const char *))
{
    name_appender = PyUnicode_InternFromString("appender");
    name_key = PyUnicode_InternFromString("key");
    name_value = PyUnicode_InternFromString("value");
    partition_slot_type = add_type(module, &partition_slot_spec, "PartitionSlot");
    topic_slots_type = add_type(module, &topic_slots_spec, "TopicSlots");
    delivery_type = add_type(module, &delivery_spec, "Delivery");
    return name_appender != NULL && name_key != NULL && name_value != NULL && partition_slot_type != NULL &&
           topic_slots_type != NULL && delivery_type != NULL &&
           add_type(module, &fast_append_spec, "FastAppend") != NULL;
}

#endif
