package interop;

import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.consumer.ConsumerConfig;
import com.taobao.metamorphosis.client.consumer.MessageConsumer;
import com.taobao.metamorphosis.client.consumer.MessageListener;
import com.taobao.metamorphosis.client.consumer.SimpleFetchManager;
import java.util.concurrent.Executor;

/** Subscribes as a member of {@code group} and prints each delivery, and {@code {"ready":true}}, until it is stopped. */
final class Consume implements MessageListener {
    private final Task task;

    private Consume(Task task) {
        this.task = task;
    }

    static void run(Task task) throws Exception {
        Options options = task.options;
        ConsumerConfig config = new ConsumerConfig(options.text("group"));
        if (options.has("consumerId")) {
            config.setConsumerId(options.text("consumerId"));
        }
        config.setOffset(0); // where nothing is committed: all there is
        config.setFetchRunnerCount(1);
        config.setMaxDelayFetchTimeInMills(200);
        config.setCommitOffsetPeriodInMills(options.number("commitMs", 1000));
        MetaMessageSessionFactory factory = Client.open(options);
        try {
            MessageConsumer consumer = factory.createConsumer(config);
            consumer.subscribe(options.text("topic"), options.integer("maxSize", 1 << 20), new Consume(task));
            consumer.completeSubscribe();
            task.print("ready", true);
            task.awaitStop();
            Client.close(consumer);
        } finally {
            Client.close(factory);
        }
    }

    @Override
    public void recieveMessages(Message message) {
        long behind = SimpleFetchManager.currentTopicRegInfo().getOffset().get();
        Client.print(task, message, message.getPartition(), behind - Client.recordSize(message));
    }

    @Override
    public Executor getExecutor() {
        return null;
    }
}
