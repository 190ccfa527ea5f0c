// Kafka's own generated message classes, asked one JSON object a line:
//
//   {"class": "org.apache.kafka.common.message.FetchRequestData", "version": 12,
//    "json": {...}, "bytes": "base64"}
//
// The answer has the bytes that Kafka writes for `json` (which `jsonVersion` may say is of another
// version); the JSON of what Kafka reads in `bytes`, the bytes that it writes for that `again`, and
// how many it had `left` unread; and with neither in the question, the JSON of a new message. What
// Kafka refuses is answered by `encodeError`, `decodeError` or `againError`. Kafka's JSON of records
// is always empty; only `again` tells what it has read.
// Run as: java -cp JARS MessageOracle.java
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

public class MessageOracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = in.readLine()) != null) {
            out.println(answer(MAPPER.readTree(line)));
            out.flush();
        }
    }

    private static JsonNode answer(JsonNode question) throws Exception {
        var kind = Class.forName(question.get("class").asText());
        var converter = Class.forName(kind.getName() + "JsonConverter");
        short version = (short) question.get("version").asInt();
        var read = converter.getMethod("read", JsonNode.class, short.class);
        var write = converter.getMethod("write", kind, short.class, boolean.class);
        var answer = MAPPER.createObjectNode();
        if (question.has("json")) {
            try {
                short of = (short) question.path("jsonVersion").asInt(version);
                var message = (Message) read.invoke(null, question.get("json"), of);
                answer.put("bytes", bytes(message, version));
            } catch (Exception error) {
                answer.put("encodeError", cause(error));
            }
        }
        if (question.has("bytes")) {
            try {
                var buffer = ByteBuffer.wrap(question.get("bytes").binaryValue());
                var message = (Message) kind.getConstructor(Readable.class, short.class)
                    .newInstance(new ByteBufferAccessor(buffer), version);
                answer.set("json", (JsonNode) write.invoke(null, message, version, true));
                answer.put("left", buffer.remaining());
                answer.put("again", bytes(message, version));
            } catch (Exception error) {
                answer.put(answer.has("json") ? "againError" : "decodeError", cause(error));
            }
        }
        if (!question.has("json") && !question.has("bytes")) {
            var message = kind.getConstructor().newInstance();
            answer.set("json", (JsonNode) write.invoke(null, message, version, true));
        }
        return answer;
    }

    private static byte[] bytes(Message message, short version) {
        var buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        return MessageUtil.byteBufferToArray(buffer);
    }

    private static String cause(Exception error) {
        return (error instanceof InvocationTargetException ? error.getCause() : error).toString();
    }
}
