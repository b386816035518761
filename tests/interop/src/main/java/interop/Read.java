package interop;

import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.TopicBrowser;
import com.taobao.metamorphosis.client.consumer.ConsumerConfig;
import com.taobao.metamorphosis.client.consumer.FetchRequest;
import com.taobao.metamorphosis.client.consumer.MessageConsumer;
import com.taobao.metamorphosis.client.consumer.SimpleMessageConsumer;
import com.taobao.metamorphosis.client.consumer.TopicPartitionRegInfo;
import com.taobao.metamorphosis.cluster.Broker;
import com.taobao.metamorphosis.cluster.Partition;
import com.taobao.metamorphosis.consumer.MessageIterator;
import java.util.Iterator;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** Commands that read without subscribing. */
final class Read {
    private Read() {}

    /**
     * Every message of {@code partition} from {@code offset} on, up to the first fetch that finds nothing (the client
     * hides why).
     */
    static void get(Task task) throws Exception {
        Options options = task.options;
        MetaMessageSessionFactory factory = Client.open(options);
        try {
            MessageConsumer consumer = consumer(factory);
            Partition partition = new Partition(options.text("partition"));
            String topic = options.text("topic");
            long offset = options.number("offset", 0);
            while (true) {
                MessageIterator messages = consumer.get(topic, partition, offset, maxSize(options));
                if (messages == null) {
                    return;
                }
                long start = offset;
                while (messages.hasNext()) {
                    long at = start + messages.getOffset();
                    Client.print(task, messages.next(), partition, at);
                    offset = start + messages.getOffset();
                }
                if (offset == start) {
                    throw new IllegalStateException("no whole message at offset " + offset);
                }
            }
        } finally {
            Client.close(factory);
        }
    }

    /** Every message of a topic. */
    static void browse(Task task) throws Exception {
        Options options = task.options;
        MetaMessageSessionFactory factory = Client.open(options);
        try {
            String topic = options.text("topic");
            TopicBrowser browser = factory.createTopicBrowser(topic, maxSize(options), 5, TimeUnit.SECONDS);
            for (Iterator<Message> messages = browser.iterator(); messages.hasNext();) {
                Message message = messages.next(); // does not know where it comes from
                task.print("messageId", message.getId(), "attribute", message.getAttribute(),
                        "payload", Client.payload(message));
            }
            browser.shutdown();
        } finally {
            Client.close(factory);
        }
    }

    /** What the broker {@code server} answers to the offset command; the topic must be published. */
    static void offset(Task task) throws Exception {
        Options options = task.options;
        MetaMessageSessionFactory factory = Client.open(options);
        try {
            String topic = options.text("topic");
            factory.createProducer().publish(topic); // connects
            Partition partition = new Partition(options.text("partition"));
            Broker broker = new Broker(partition.getBrokerId(), options.text("broker"));
            TopicPartitionRegInfo position = new TopicPartitionRegInfo(topic, partition, options.number("offset", 0));
            FetchRequest query = new FetchRequest(broker, 0, position, maxSize(options));
            task.print("offset", ((SimpleMessageConsumer) consumer(factory)).offset(query));
        } finally {
            Client.close(factory);
        }
    }

    /** The partitions of {@code topic} that a producer finds. */
    static void partitions(Task task) throws Exception {
        MetaMessageSessionFactory factory = Client.open(task.options);
        try {
            task.print("partitions", factory.getPartitionsForTopic(task.options.text("topic")).stream()
                    .map(Partition::toString).sorted().collect(Collectors.toList()));
        } finally {
            Client.close(factory);
        }
    }

    /** The statistics {@code item} of every broker that {@code topic} is published on. */
    static void stats(Task task) throws Exception {
        MetaMessageSessionFactory factory = Client.open(task.options);
        try {
            factory.createProducer().publish(task.options.text("topic")); // only connected brokers are asked
            factory.getStats(task.options.text("item", "")).forEach((address, answer) ->
                    task.print("server", address.toString(), "values", new TreeMap<>(answer.getAllValues())));
        } finally {
            Client.close(factory);
        }
    }

    private static int maxSize(Options options) {
        return options.integer("maxSize", 1 << 20);
    }

    private static MessageConsumer consumer(MetaMessageSessionFactory factory) throws Exception {
        return factory.createConsumer(new ConsumerConfig("interop-read"));
    }
}
