/** Sends an order to a worker and returns what it answers with. @throws Error when the worker fails. */
export function askWorker<Order, Answer = number>(worker: Worker, order: Order): Promise<Answer> {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<Answer>) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage(order);
  });
}
